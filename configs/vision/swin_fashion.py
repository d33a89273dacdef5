"""A small Swin of `fashion_mnist`: 14 x 14 patches of 2 x 2 pixels in windows of 7 x 7, then one window.

    txjax train --config=configs/vision/swin_fashion.py --workdir=runs/swin_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. Logistic regression on
the pixels of 10,000 images reaches 0.830.

Cost: about 17 minutes of a busy CPU core.
Score: eval/test/accuracy 0.858 of `test`.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.swin.swin import Swin
from txjax.nn import Classes, LayerNorm, MeanTokens, PatchEmbedding, PreNorm, Xavier
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        model=Swin(
            stages=(Stage(width=32, depth=2, heads=2), Stage(width=64, depth=2, heads=4)),
            stem=PatchEmbedding(patch=2),
            norm=LayerNorm(eps=1e-5),
            block=PreNorm(drop_path=0.1),
            initial=Xavier(),
            head=Classes(10, MeanTokens()),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(Flip(),), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=1000, batch_size=256)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=1000, best="eval/test/accuracy", best_mode="max"),
        num_steps=3000,
        batch_size=64,
        log_every_steps=50,
    )
