"""Answers to questions as spans of a text, by a small BERT or a small decoder, from scratch.

    txjax train --config=configs/text/spans.py --workdir=runs/spans

Variants: bert (the default) and decoder. `squad_xquad_en`, with SQuAD's features (as `squad` has), must be prepared in
TFDS_DATA_DIR (docs/data.md): a thousand questions, too few to learn to read; they are learned by heart. `squad` has
SQuAD's official exact match and F1 over windows of the whole contexts; random spans of three words have an F1 of 0.037.

Cost: about 1 minute on two CPU cores.
Score: eval/train/exact_match 0.992, of 200 training questions, by either model; below 0.01 of the held-out ones.
"""

from typing import Any

from txjax.data import Answers, Trained, WordPiece
from txjax.eval import Evaluation, ExtractedAnswers
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Init, PreNorm, Rotary, StartEnd
from txjax.objectives import Spans
from txjax.optim import AdamW, Linear

VARIANTS = ("bert", "decoder")


def get_config(kind: str = "bert") -> Experiment:
    features = ("question", "context")
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="squad_xquad_en", features=features)
    pairs: dict[str, Any] = dict(text=features, length=128, tokenizer=tokenizer)
    sizes: dict[str, Any] = dict(vocab=2000, width=64, depth=2, heads=4, initial=Init(), head=StartEnd())
    return Experiment(
        model=Decoder(**sizes) if kind == "decoder" else Bert(**sizes, block=PreNorm(), positions=Rotary()),
        objective=Spans(),
        data=Answers(name="squad_xquad_en", split="train", **pairs),
        evals={
            "train": Evaluation(data=Answers(split="train[:200]", **pairs), every_steps=300),
            "valid": Evaluation(data=Answers(split="validation", **pairs), every_steps=300),
            "squad": ExtractedAnswers(data=Answers(split="validation", **pairs, stride=48), every_steps=300),
        },
        optimizer=AdamW(peak_lr=2e-3, weight_decay=0.01, schedule=Linear(warmup_steps=50)),
        num_steps=300,
        batch_size=32,
        log_every_steps=50,
    )
