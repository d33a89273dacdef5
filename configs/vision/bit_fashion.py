"""A small BiT of all of `fashion_mnist`: a residual network with standardised kernels and norms of groups.

    txjax train --config=configs/vision/bit_fashion.py --workdir=runs/bit_fashion

The data is TFDS's `fashion_mnist`; `--config.data.data_dir` or TFDS_DATA_DIR gives its folder.

Cost: about 9 minutes of a busy CPU core.
Score: eval/test/accuracy 0.895 of `test`.
"""

from txjax.data import Flip, Images, PadCrop
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.hierarchical import Stage
from txjax.models.vision.res_net import BottleneckStem
from txjax.models.vision.res_net.bit import BiT
from txjax.nn import Classes, GroupNormRelu, MeanTokens
from txjax.objectives import Classification
from txjax.optim import SGD, Cosine


def get_config() -> Experiment:
    fashion = dict(shape=(28, 28, 1), mean=(0.286,), std=(0.353,))
    return Experiment(
        # 7 x 7 tokens in the first stage, then 4 x 4, then 2 x 2.
        model=BiT(
            stages=(Stage(width=32, depth=1), Stage(width=64, depth=1), Stage(width=128, depth=1)),
            stem=BottleneckStem(channels=16),
            norm=GroupNormRelu(groups=8),
            head=Classes(10, MeanTokens()),
        ),
        objective=Classification(),
        data=Images(name="fashion_mnist", split="train", transforms=(PadCrop(2), Flip()), **fashion),
        evals={"test": Evaluation(data=Images(split="test", **fashion), every_steps=1000, batch_size=256)},
        optimizer=SGD(peak_lr=0.1, weight_decay=1e-3, schedule=Cosine(warmup_steps=100, final=0.0)),
        num_steps=8000,
        batch_size=64,
        log_every_steps=50,
    )
