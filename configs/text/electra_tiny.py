"""A small ELECTRA on the source code of Python's standard library: which bytes did the generator replace?

    txjax train --config=configs/text/electra_tiny.py --workdir=runs/electra_tiny

The generator has a quarter of the discriminator's width, as in ELECTRA small; both have one table of tokens and one of
positions, of width 64. Data, length and updates are as in `mlm_tiny`.

Cost: 600 updates of 32 windows, each about twice as long as in `mlm_tiny`.
Score: not measured yet. By chance `replaced_auc` is 0.5, and an answer of "never replaced" has an accuracy near 0.9.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import Bytes, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Bert, Electra
from txjax.nn import Learned, ReplacedTokens
from txjax.objectives import ReplacedToken
from txjax.optim import AdamW, Linear


def get_config() -> Experiment:
    windows = dict(length=128, tokenizer=Bytes(specials=("[MASK]",)))

    def encoder(width: int, heads: int, **fields: Any) -> Bert:
        sizes: dict[str, Any] = dict(vocab=257, width=width, depth=4, heads=heads, embed_width=64)
        return Bert(positions=Learned(max_length=128), **sizes, **fields)

    return Experiment(
        model=Electra(generator=encoder(32, 1), discriminator=encoder(128, 4, head=ReplacedTokens())),
        objective=ReplacedToken(mask_id=256, vocab=256),
        data=TextWindows(name="txjax_python_text", split="train", **windows),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **windows), every_steps=200, max_batches=32)},
        optimizer=AdamW(peak_lr=1e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=200, best="eval/valid/replaced_auc", best_mode="max"),
        num_steps=600,
        batch_size=32,
        log_every_steps=25,
    )
