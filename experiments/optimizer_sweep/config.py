"""Four optimizers on one small model, each tuned by as many runs over as wide a range.

    txjax sweep --config=experiments/optimizer_sweep/config.py --workdir=runs/optimizers/tune --jobs=2
    txjax report runs/optimizers/tune --json > runs/optimizers/tune.json
    python experiments/optimizer_sweep/choose.py runs/optimizers/tune.json
    txjax sweep --config=experiments/optimizer_sweep/config.py:chosen --workdir=runs/optimizers/chosen --jobs=2
    txjax report runs/optimizers/chosen

`choose.py` writes the best point of every optimizer to `chosen.json`; the variant `chosen` trains it with three seeds
that tuning never saw.
"""

import json
from pathlib import Path

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Rotary
from txjax.objectives import NextToken
from txjax.optim import Adafactor, AdamW, Cosine, Lion, Muon
from txjax.sweep import LogUniform, grid, sample

VARIANTS = ("chosen",)
STEPS, TRIALS = 300, 8

# By name: the optimizer, and the centers of its ranges of learning rates and weight decays (a factor of ten each way).
OPTIMIZERS = {
    "adamw": (AdamW, 5e-3, 0.1),
    "lion": (Lion, 2e-3, 1.0),
    "muon": (Muon, 3e-2, 0.1),
    "adafactor": (Adafactor, 5e-2, 0.01),
}


def get_config(variant: str = "") -> Experiment:
    held_out = NextTokenWindows(split="validation", length=128)
    return Experiment(
        model=Decoder(vocab=256, width=48, depth=2, heads=3, positions=Rotary(), initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", split="train", length=128),
        evals={"valid": Evaluation(data=held_out, every_steps=STEPS, batch_size=32, max_batches=32)},
        optimizer=AdamW(schedule=Cosine(warmup_steps=30)),
        checkpoint=Checkpoints(every_steps=STEPS, keep=1),
        trackers=(),
        num_steps=STEPS,
        batch_size=8,
        log_every_steps=100,
        on_nonfinite="raise",
    )


def sweep(variant: str = "") -> list[dict]:
    if variant == "chosen":
        best = json.loads(Path(__file__).with_name("chosen.json").read_text(encoding="utf-8"))
        points = [{"optimizer": _optimizer(name)} | values for name, values in best.items()]
        return grid(points, {"seed": [1, 2, 3]})
    points = []
    for name, (_, lr, decay) in OPTIMIZERS.items():
        ranges = {
            "optimizer.peak_lr": LogUniform(lr / 10, lr * 10),
            "optimizer.weight_decay": LogUniform(decay / 10, decay * 10),
        }
        points += [{"optimizer": _optimizer(name)} | drawn for drawn in sample(TRIALS, ranges)]
    return points


def _optimizer(name: str):
    """A new optimizer with the run's schedule."""
    return OPTIMIZERS[name][0](schedule=Cosine(warmup_steps=30))
