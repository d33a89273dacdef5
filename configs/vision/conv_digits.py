"""A small residual network with batch normalization that reads scikit-learn's scanned digits, as `vit_digits.py` does.

    txjax train --config=configs/vision/conv_digits.py --workdir=runs/conv_digits

Cost: about 1 minute on two CPU cores.
Score: eval/test/accuracy 0.993 of the held-out digits.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.vision.conv_net.conv_net import ConvNet
from txjax.nn import BatchNorm, Classes, MeanTokens
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    digits = dict(shape=(8, 8, 1), mean=(0.3,), std=(0.35,))
    return Experiment(
        # Groups of 16 examples: statistics, and so the run, are the same in up to four microbatches.
        model=ConvNet(head=Classes(10, MeanTokens()), width=32, depth=1, stages=2, norm=BatchNorm(group=16)),
        objective=Classification(),
        data=Images(name="txjax_digits", split="train", **digits),
        evals={"test": Evaluation(data=Images(split="test", **digits), every_steps=200)},
        optimizer=AdamW(peak_lr=5e-3, b2=0.99, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        checkpoint=Checkpoints(every_steps=200, best="eval/test/accuracy", best_mode="max"),
        num_steps=600,
        batch_size=64,
        log_every_steps=25,
    )
