"""GPT-Neo in small: Shakespeare letter by letter, global layers and layers with a window of 32 letters in turn.

    txjax train --config=configs/text/gpt_neo_tiny.py --workdir=runs/gpt_neo_tiny

The data are plays of Shakespeare.

Cost: 2,000 steps, 7 minutes on one of two busy CPU cores.
Score: eval/valid/loss 1.596, nats a letter of `validation` (one seed). Counts of three letters give 1.993.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import gpt_neo
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config() -> Experiment:
    letters = dict(length=128, tokenizer=Characters(alphabet=ALPHABET))
    return Experiment(
        model=gpt_neo(vocab=len(ALPHABET), width=128, depth=4, heads=4, max_length=128, window=32),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", **letters),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation", **letters), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.1, schedule=Cosine(warmup_steps=100, final=0.1)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/loss"),
        num_steps=2000,
        batch_size=16,
        log_every_steps=50,
    )
