"""Names of persons, places and others in short messages (WNUT 2017), by a small BERT, from scratch.

    txjax train --config=configs/text/entities.py --workdir=runs/entities

`wnut17` must be prepared in TFDS_DATA_DIR (docs/data.md). Scores are of whole entities, by seqeval (the extra `text`).
Most entities of the test set occur in no other: from scratch this is a check of the way, not a good tagger.

Cost: 600 steps, 1 minute on two CPU cores.
Score: eval/entities/f1 0.07 of the test set or more (0.083, one seed). A dictionary of the training set's entities has
0.030. 91.3% of the words of `validation` have the right tag, 92.1% if all are outside of entities.
"""

from txjax.data import TokenLabels, Trained, WordPiece
from txjax.eval import Entities, Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import PreNorm, Rotary, TokenClasses
from txjax.objectives import TokenClassification
from txjax.optim import AdamW, Linear


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(lowercase=False), size=4000, name="wnut17", features=("tokens",))
    words = dict(classes=13, length=128, tokenizer=tokenizer, buckets=(16, 32, 64))
    return Experiment(
        model=Bert(
            vocab=4000,
            width=64,
            depth=2,
            heads=4,
            dropout=0.1,
            block=PreNorm(),
            positions=Rotary(),
            head=TokenClasses(13),
        ),
        objective=TokenClassification(),
        data=TokenLabels(name="wnut17", split="train", **words),
        evals={
            "valid": Evaluation(data=TokenLabels(split="validation", **words), every_steps=200),
            "entities": Entities(data=TokenLabels(split="test", **words), every_steps=200),
        },
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.01, schedule=Linear(warmup_steps=50)),
        num_steps=600,
        batch_size=32,
        log_every_steps=50,
    )
