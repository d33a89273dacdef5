"""GPT-1's way, small: a decoder learns a text, then its classes, with the text's loss kept as a second one.

    txjax train --config=configs/text/gpt_tasks.py:text --workdir=runs/gpt_text
    txjax train --config=configs/text/gpt_tasks.py --workdir=runs/gpt_tasks --config.init_from=runs/gpt_text

Variants: text learns to predict customers' questions to a bank; both (the default) classifies them, ten labels a class,
with half the loss of the next token (lambda of Radford et al. 2018, eq. 5); alone without it. `banking77` must lie in
TFDS_DATA_DIR (docs/data.md).

Cost: 3 minutes for text and 1 for each of the others on two busy CPU cores.
Score: text: eval/test/loss 2.631, nats a piece of the test questions (one seed). From it, with three seeds, both has
65.2 ± 0.3% of the test questions right and alone 67.7 ± 0.8% (mean and standard error): with 770 examples the text's
loss is no gain. In the paper (5, table 5) it helps the larger tasks, not the smaller ones.
"""

from typing import Any

from txjax.data import LabelledText, NextTokenPacked, Subset, Trained, WordPiece
from txjax.eval import Perplexity, Predictions
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.nn import Classes, Heads, LastToken, Learned, Tied
from txjax.objectives import Classification, NextToken, WithNextToken
from txjax.optim import AdamW, Linear
from txjax.transfer import From

VARIANTS = ("both", "alone", "text")


def get_config(variant: str = "both") -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="banking77", split="train")
    sizes: dict[str, Any] = dict(vocab=2000, width=128, depth=2, heads=4, dropout=0.1, positions=Learned(max_length=64))
    shared: dict[str, Any] = dict(batch_size=32, log_every_steps=50)
    if variant == "text":
        packed = dict(length=64, tokenizer=tokenizer)
        return Experiment(
            model=Decoder(**sizes),
            objective=NextToken(),
            data=NextTokenPacked(name="banking77", split="train", **packed),
            evals={"test": Perplexity(data=NextTokenPacked(split="test", **packed), every_steps=500)},
            optimizer=AdamW(peak_lr=2e-3, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
            num_steps=2000,
            **shared,
        )
    texts: dict[str, Any] = dict(text=("text",), classes=77, length=64, tokenizer=tokenizer, buckets=(16, 32))
    classes, alone = Classes(77, LastToken()), variant == "alone"
    evaluation = Predictions(data=LabelledText(split="test", **texts), every_steps=200, task=None if alone else "task")
    return Experiment(
        model=Decoder(**sizes, head=classes if alone else Heads({"task": classes, "text": Tied()})),
        objective=Classification() if alone else WithNextToken(weight=0.5),
        data=LabelledText(name="banking77", split="train", subset=Subset(per_class=10), **texts),
        evals={"test": evaluation},
        optimizer=AdamW(peak_lr=1e-3, weight_decay=0.01, schedule=Linear(warmup_steps=50)),
        init_from=From(omit=("head",)),
        num_steps=400,
        **shared,
    )
