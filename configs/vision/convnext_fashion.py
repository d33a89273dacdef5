"""A small ConvNeXt of `fashion_mnist`: kernels of 7 x 7 on 14 x 14, 7 x 7 and 3 x 3 patches.

    txjax train --config=configs/vision/convnext_fashion.py --workdir=runs/convnext_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. Logistic regression on
the pixels of 10,000 images reaches 0.830.

Cost: about 11 minutes of a busy CPU core.
Score: eval/test/accuracy 0.886 of `test`.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.conv_next.conv_next import ConvNeXt
from txjax.nn import Classes, Init, NormedPool, PatchEmbedding, SingleBranch
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        # So few updates need larger first values than the paper's: kernels by their fan-in, a layer scale of 0.1.
        model=ConvNeXt(
            stages=(Stage(width=32, depth=2), Stage(width=64, depth=2), Stage(width=128, depth=2)),
            stem=PatchEmbedding(patch=2),
            block=SingleBranch(layer_scale=0.1, drop_path=0.1),
            initial=Init(),
            head=Classes(10, NormedPool()),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(Flip(),), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=500, batch_size=256)},
        optimizer=AdamW(peak_lr=3e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=500, best="eval/test/accuracy", best_mode="max"),
        num_steps=2000,
        batch_size=64,
        log_every_steps=50,
    )
