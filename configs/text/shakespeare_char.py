"""nanoGPT's published setting for a CPU: Shakespeare letter by letter, 4 layers, width 128, context 64, no dropout.

It differs in one number: the learning rate is 2e-3. With nanoGPT's own 1e-3 the loss is 1.898.

    txjax train --config=configs/text/shakespeare_char.py --workdir=runs/shakespeare_char

The data are plays of Shakespeare.

Cost: about 3 minutes on two CPU cores.
Score: eval/valid/loss 1.777, nats a character of `validation` (nanoGPT's published figure: 1.88).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import gpt
from txjax.nn import MLP, Attention, LayerNorm
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config() -> Experiment:
    letters = dict(length=64, tokenizer=Characters(alphabet=ALPHABET))
    return Experiment(
        model=gpt(
            vocab=len(ALPHABET),
            width=128,
            depth=4,
            heads=4,
            max_length=64,
            mixer=Attention(use_bias=False),
            mlp=MLP(activation="gelu_tanh", use_bias=False),
            norm=LayerNorm(use_bias=False),
        ),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", **letters),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation", **letters), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.1, schedule=Cosine(warmup_steps=100, final=0.1)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/loss"),
        num_steps=2000,
        batch_size=12,
        log_every_steps=50,
    )
