"""Linear attention in a small decoder: Shakespeare letter by letter, with a state of one size for any length.

    txjax train --config=configs/text/linear_attention_tiny.py --workdir=runs/linear_tiny

Variants: `elu` (the default; Katharopoulos et al. 2020), `favor` (128 random features of the softmax; Choromanski et
al. 2021), `softmax` (to compare). The data are plays of Shakespeare.
`benchmarks/linear_attention.py` measures the time of a generated token.

Cost: 2,000 steps, 6 minutes on one of two busy CPU cores.
Score: eval/valid/loss 1.795, nats a letter of `validation` (elu, one seed); softmax 1.521. Counts of two letters give
2.473, of three 1.993.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.nn import GPT2, Attention, EluPlusOne, FavorPlus, LinearAttention, Rotary
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine

VARIANTS = ("elu", "favor", "softmax")
ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config(features: str = "elu") -> Experiment:
    letters = dict(length=128, tokenizer=Characters(alphabet=ALPHABET))
    mixer = {
        "elu": LinearAttention(features=EluPlusOne(), chunk=32),
        "favor": LinearAttention(features=FavorPlus(features=128), chunk=32),
        "softmax": Attention(),
    }[features]
    sizes = dict(vocab=len(ALPHABET), width=128, depth=4, heads=4)
    return Experiment(
        model=Decoder(**sizes, positions=Rotary(), mixer=mixer, initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_shakespeare", split="train", **letters),
        evals={"valid": Evaluation(data=NextTokenWindows(split="validation", **letters), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.99, weight_decay=0.1, schedule=Cosine(warmup_steps=100, final=0.1)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/loss"),
        num_steps=2000,
        batch_size=16,
        log_every_steps=50,
    )
