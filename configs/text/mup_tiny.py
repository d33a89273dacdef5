"""Does the best learning rate of a narrow decoder serve a wider one? Under muP it should; `:standard` is beside it.

    txjax sweep --config=configs/text/mup_tiny.py --workdir=runs/mup --executor=population
    txjax scaling lr_transfer runs/mup
    txjax train --config=configs/text/mup_tiny.py --workdir=runs/mup_tiny

Cost: about 1 minute on one busy CPU core for the last command, whose width is the base's.
Score: 2.447 nats a byte on held-out files (first 16 batches) by that command.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.nn import Untied
from txjax.objectives import NextToken
from txjax.optim import AdamW, Linear
from txjax.parametrization import MuP, Parametrization, Standard
from txjax.sweep import Point, grid

VARIANTS = ("standard",)


def get_config(variant: str = "mup") -> Experiment:
    def windows(split: str) -> NextTokenWindows:
        return NextTokenWindows(name="txjax_python_text", split=split, length=64)

    made: Parametrization = Standard() if variant == "standard" else MuP(base_width=32, base_head_size=8)
    return Experiment(
        model=Decoder(vocab=256, width=32, depth=2, heads=4, head=Untied(), parametrization=made),
        objective=NextToken(),
        data=windows("train"),
        evals={"valid": Evaluation(data=windows("validation"), every_steps=120, max_batches=16)},
        optimizer=AdamW(peak_lr=2**-6, schedule=Linear(warmup_steps=12)),
        checkpoint=Checkpoints(every_steps=120, keep=1),
        num_steps=120,
        batch_size=16,
        trackers=(),
    )


def sweep() -> list[Point]:
    return grid({"model.width": [32, 64, 128]}, {"optimizer.peak_lr": [2**-i for i in range(9, 3, -1)]})
