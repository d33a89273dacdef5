"""A small CvT of all of `fashion_mnist`: convolutions embed patches that overlap, and come before attention.

    txjax train --config=configs/vision/cvt_fashion.py --workdir=runs/cvt_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder.

Cost: about 9 minutes of a busy CPU core.
Score: eval/test/accuracy 0.874 of `test`.
"""

from txjax.data import Flip, Images, PadCrop
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.cvt import ConvAttention
from txjax.models.vision.cvt.cvt import CvT
from txjax.nn import BatchNorm, Classes, FirstToken
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        # 7 x 7 tokens, 4 x 4, and 2 x 2 with the class token. Groups of 16 examples suit up to four microbatches.
        model=CvT(
            stages=(
                Stage(width=16, depth=1, heads=2),
                Stage(width=32, depth=2, heads=2),
                Stage(width=64, depth=3, heads=4),
            ),
            mixer=ConvAttention(norm=BatchNorm(group=16)),
            head=Classes(10, FirstToken()),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(PadCrop(2), Flip()), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=1000, batch_size=256)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=100, final=0.0)),
        num_steps=6000,
        batch_size=64,
        log_every_steps=50,
    )
