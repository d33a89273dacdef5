"""A small BERT, or a small decoder, from scratch: which of 77 intents a bank's customer has.

    txjax train --config=configs/text/questions.py --workdir=runs/questions

Variants: bert (the default) and decoder. `banking77` must be prepared in TFDS_DATA_DIR (docs/data.md).

Cost: about 1 minute on two CPU cores.
Score: eval/test/accuracy 0.895 of the held-out questions; 0.889 by the decoder.
"""

from typing import Any

from txjax.data import LabelledText, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert import Bert
from txjax.models.text.decoder import Decoder
from txjax.nn import Classes, Init, LastToken, MeanTokens, PreNorm, Rotary
from txjax.objectives import Classification
from txjax.optim import AdamW, Cosine

VARIANTS = ("bert", "decoder")


def get_config(kind: str = "bert") -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="banking77", split="train")
    texts: dict[str, Any] = dict(text=("text",), classes=77, length=48, tokenizer=tokenizer, buckets=(24,))
    sizes: dict[str, Any] = dict(
        vocab=2000, width=64, depth=2, heads=4, dropout=0.1, positions=Rotary(), initial=Init()
    )
    models = {
        "bert": lambda: Bert(**sizes, block=PreNorm(), head=Classes(77, MeanTokens())),
        "decoder": lambda: Decoder(**sizes, head=Classes(77, LastToken())),
    }
    return Experiment(
        model=models[kind](),
        objective=Classification(),
        data=LabelledText(name="banking77", split="train", **texts),
        evals={"test": Evaluation(data=LabelledText(split="test", **texts), every_steps=400)},
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.05, schedule=Cosine(warmup_steps=50, final=0.0)),
        num_steps=1200,
        batch_size=32,
        log_every_steps=50,
    )
