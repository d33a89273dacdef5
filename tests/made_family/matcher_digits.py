"""Digits and their names; `:adapted` trains low-rank updates of a run's attention and GRU, and a new head.

    txjax train --config=tests/made_family/matcher_digits.py --workdir=runs/matcher
    txjax train --config=tests/made_family/matcher_digits.py:adapted --workdir=runs/adapted \
      --config.init_from.run=runs/matcher
"""

from matcher import Captioned, Glimpses, Matcher

from txjax.checkpoint import Checkpoints
from txjax.data import Images
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.nn import BatchNorm, Learned, Stack
from txjax.nn.adapters import LoRA
from txjax.objectives import Classification
from txjax.optim import AdamW, Constant, train_adapter
from txjax.transfer import From

LENGTH = 8
VARIANTS = ("adapted",)


def get_config(variant: str = "") -> Experiment:
    def data(split: str) -> Captioned:
        return Captioned(images=Images(name="txjax_digits", split=split, shape=(8, 8, 1)), length=LENGTH)

    text = Bert(vocab=256, width=8, depth=1, heads=2, head=None, positions=Learned(max_length=LENGTH))
    image = Glimpses(width=8, norm=BatchNorm(group=4))
    made = Experiment(
        model=Matcher(image=image, text=text, width=16, depth=2, heads=2, stack=Stack(unroll=1)),
        objective=Classification(),
        data=data("train"),
        evals={"valid": Evaluation(data=data("test"), every_steps=4, max_batches=2)},
        optimizer=AdamW(peak_lr=1e-2, schedule=Constant(warmup_steps=2)),
        checkpoint=Checkpoints(every_steps=4),
        num_steps=8,
        batch_size=16,
        log_every_steps=1,
        trackers=(),
    )
    if variant == "adapted":
        made.init_from = From(omit=("head",))
        made.model.adapter = LoRA(paths=r".*(attention|mixer|cross)/(query|value|given|cell/recurrent)", rank=2)
        made.optimizer.groups = train_adapter("head/.*")
    return made
