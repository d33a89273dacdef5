"""A small RepLKNet of `fashion_mnist`: kernels of 13 x 13 on 14 x 14 patches, of 7 x 7 on 7 x 7.

    txjax train --config=configs/vision/replknet_fashion.py --workdir=runs/replknet_fashion
    txjax merge --workdir=runs/replknet_fashion --to=runs/replknet_merged  # one kernel in place of each pair

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. Logistic regression on
the pixels of 10,000 images reaches 0.830.

Cost: about 11 minutes of a busy CPU core.
Score: eval/test/accuracy 0.875 of `test`.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.rep_lk_net import LargeKernelMixer, NormedMLP
from txjax.models.vision.rep_lk_net.rep_lk_net import RepLKNet
from txjax.nn import BatchNorm, Classes, ConvEmbedding, Init, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    norm = BatchNorm(group=16)  # groups of 16 examples suit up to four microbatches
    return Experiment(
        model=RepLKNet(
            stages=(Stage(width=48, depth=2), Stage(width=96, depth=1)),
            sides=(13, 7),
            stem=ConvEmbedding(side=3, stride=2, padding=1),
            norm=norm,
            mixer=LargeKernelMixer(norm=norm.clone()),
            mlp=NormedMLP(norm=norm.clone()),
            initial=Init(),
            head=Classes(10, MeanTokens()),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(Flip(),), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=500, batch_size=256)},
        optimizer=AdamW(peak_lr=3e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=500, best="eval/test/accuracy", best_mode="max"),
        num_steps=1000,
        batch_size=64,
        log_every_steps=50,
    )
