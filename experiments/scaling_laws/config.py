"""The runs of the study: bytes of Python's standard library, a decoder of three layers, sizes and steps from a ladder.

    txjax sweep --config=experiments/scaling_laws/config.py --workdir=runs/scaling_laws --jobs=2

The ladder beside it was made by

    txjax scaling ladder --config=experiments/scaling_laws/config.py --budgets=1e11,2.2e11,5e11,1.1e12 --sizes=6 \\
        --head_size=8 --tokens_per_parameter=40 --spacing=1.6 --out=experiments/scaling_laws/ladder.json

and the run that is foretold, `config.py:large`, will be made by the same command with --budgets=5e12, the --widths that
the fit tells, and --out=experiments/scaling_laws/large.json.
"""

import json
from pathlib import Path

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.nn import GPT2, Rotary, Untied
from txjax.objectives import NextToken
from txjax.optim import AdamW, WarmupStableDecay

VARIANTS = ("", "large")


def get_config(variant: str = "") -> Experiment:
    def windows(split: str) -> NextTokenWindows:
        return NextTokenWindows(name="txjax_python_text", split=split, length=128)

    return Experiment(
        model=Decoder(vocab=256, width=64, depth=3, heads=8, positions=Rotary(), head=Untied(), initial=GPT2()),
        objective=NextToken(),
        data=windows("train"),
        evals={"valid": Evaluation(data=windows("validation"), every_steps=1000, max_batches=128, batch_size=16)},
        optimizer=AdamW(peak_lr=6e-3, b2=0.98, weight_decay=0.1, schedule=WarmupStableDecay()),
        checkpoint=Checkpoints(every_steps=10_000, keep=1),
        trackers=(),
        num_steps=1000,
        batch_size=8,
        log_every_steps=100,
    )


def sweep(variant: str = "") -> list[dict]:
    ladder = Path(__file__).with_name(f"{variant or 'ladder'}.json")
    return json.loads(ladder.read_text())["points"]
