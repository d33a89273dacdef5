"""ELECTRA in small: which letters of Shakespeare did the generator replace?

    txjax train --config=configs/text/electra_tiny.py --workdir=runs/electra_tiny

The generator has a quarter of the discriminator's width, as in ELECTRA small; both have one table of letters, of width
64. Data, length and updates are as in `configs/text/roberta_tiny.py`. Positions are rotary: with learned ones
`replaced_auc` is 0.526 after as many updates. The data are plays of Shakespeare.

Cost: 2,000 steps, 6 minutes on one of two busy CPU cores.
Score: eval/valid/replaced_auc 0.773 on `validation` (0.785 in another run of this seed, rounded otherwise), 0.5 by
chance; 91.6% of all letters are judged right, 91.1% by "never replaced". The generator has 1.541 nats a masked letter.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.models.text.electra import Electra
from txjax.nn import ReplacedTokens, Rotary
from txjax.objectives import ReplacedToken
from txjax.optim import AdamW, Linear

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config() -> Experiment:
    letters = dict(length=32, tokenizer=Characters(alphabet=ALPHABET, specials=("[MASK]",)), boundaries=False)

    def encoder(width: int, heads: int, **fields: Any) -> Bert:
        sizes: dict[str, Any] = dict(vocab=len(ALPHABET) + 1, width=width, depth=4, heads=heads, embed_width=64)
        return Bert(positions=Rotary(), **sizes, **fields)

    return Experiment(
        model=Electra(generator=encoder(32, 1), discriminator=encoder(128, 4, head=ReplacedTokens())),
        objective=ReplacedToken(mask_id=len(ALPHABET), vocab=len(ALPHABET)),
        data=TextWindows(name="txjax_shakespeare", split="train", **letters),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **letters), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=200)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/replaced_auc", best_mode="max"),
        num_steps=2000,
        batch_size=64,
        log_every_steps=50,
    )
