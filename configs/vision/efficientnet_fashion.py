"""A small EfficientNet of `fashion_mnist`: inverted bottlenecks on 14 x 14, 7 x 7 and 4 x 4 tokens.

    txjax train --config=configs/vision/efficientnet_fashion.py --workdir=runs/efficientnet_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder. Logistic regression on
the pixels of 10,000 images reaches 0.830.

Cost: about 6 minutes of a busy CPU core.
Score: eval/test/accuracy 0.893 of `test` (one seed, 2026-11-26).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Flip, Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.efficient_net import EfficientNet, InvertedStage, InvertedStem, PlainResidual
from txjax.nn import BatchNorm, Classes, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        model=EfficientNet(
            stages=(
                InvertedStage(16, 1, ratio=1, stride=1),
                InvertedStage(24, 2, ratio=4),
                InvertedStage(40, 2, side=5, ratio=4),
            ),
            stem=InvertedStem(channels=16),
            features=128,
            # Groups of 16 examples: statistics, and so the run, are the same in up to four microbatches.
            norm=BatchNorm(momentum=0.9, eps=1e-3, group=16),
            block=PlainResidual(drop_path=0.1),
            head=Classes(10, MeanTokens()),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(Flip(),), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=500, batch_size=256)},
        optimizer=AdamW(peak_lr=4e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        checkpoint=Checkpoints(every_steps=500, best="eval/test/accuracy", best_mode="max"),
        num_steps=2500,
        batch_size=64,
        log_every_steps=50,
    )
