"""ALBERT in small: the layer of `roberta_tiny` four times, embeddings of 32 channels, and the order of sentences.

    txjax train --config=configs/text/albert_tiny.py --workdir=runs/albert_tiny

Variants: tokens (the default: masked letters alone, in the data and steps of `configs/text/roberta_tiny.py`, for
comparison) and order (pairs of neighbouring stretches of text, of which half are swapped). The data are plays of
Shakespeare.

Cost: 2,000 steps, 4 minutes on one of two busy CPU cores.
Score: eval/valid/loss 1.748, nats a masked letter of `validation`, of which 50.3% are found (tokens, one seed), with
210,018 parameters; `roberta_tiny` has 823,106 and 1.396.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import Characters, SentencePairs, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.nn import MLP, Learned, MaskedTokens, NextSentence, Stack
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear

VARIANTS = ("tokens", "order")
ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def get_config(variant: str = "tokens") -> Experiment:
    ordered = variant == "order"
    specials = ("[MASK]", "[CLS]", "[SEP]") if ordered else ("[MASK]",)
    length = 64 if ordered else 32
    letters: dict[str, Any] = dict(length=length, tokenizer=Characters(alphabet=ALPHABET, specials=specials))

    def text(**fields: Any) -> TextWindows:
        if ordered:
            return SentencePairs(**fields, **letters, other="swapped")
        return TextWindows(**fields, **letters, boundaries=False)

    return Experiment(
        model=Bert(
            vocab=len(ALPHABET) + len(specials),
            width=128,
            depth=4,
            heads=4,
            embed_width=32,
            mlp=MLP(activation="gelu_tanh"),
            stack=Stack(groups=1),
            positions=Learned(max_length=length),
            head=MaskedTokens(next_sentence=NextSentence() if ordered else None),
        ),
        objective=MaskedToken(mask_id=len(ALPHABET), vocab=len(ALPHABET)),
        data=text(name="txjax_shakespeare", split="train"),
        evals={"valid": Evaluation(data=text(split="validation"), every_steps=500)},
        optimizer=AdamW(peak_lr=2e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=200)),
        checkpoint=Checkpoints(every_steps=500, best="eval/valid/loss"),
        num_steps=2000,
        batch_size=64,
        log_every_steps=50,
    )
