"""A small BERT that classifies questions to a bank into 77 intents, from scratch or from a pretrained encoder.

    txjax train --config=configs/text/bert_sentences.py --workdir=runs/bert_sentences

With `--config.init_from=runs/mlm_sentences` the encoder comes from `configs/text/mlm_sentences.py`. `banking77` must
be prepared in TFDS_DATA_DIR (docs/data.md). Batches are padded to the shortest bucket that holds their sentences.

Cost: 1 to 2 minutes on one of two busy CPU cores.
Score: eval/test/accuracy 0.658 with ten labels a class from scratch. Of the test sentences 71.5 ± 0.8% from
`mlm_sentences`, 65.8 ± 1.2% from scratch (means and standard errors of three seeds, `experiments/transfer/`).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import LabelledText, Subset, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.nn import Classes, Learned, MeanTokens, PreNorm
from txjax.objectives import Classification
from txjax.optim import AdamW, Linear
from txjax.transfer import From


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=2000, name="banking77", split="train")
    common = {"text": ("text",), "classes": 77, "length": 64, "tokenizer": tokenizer}
    buckets = (16, 32)
    return Experiment(
        model=Bert(
            vocab=2000,
            width=128,
            depth=2,
            heads=4,
            head=Classes(77, MeanTokens()),
            dropout=0.1,
            block=PreNorm(),
            positions=Learned(max_length=64),
        ),
        objective=Classification(),
        data=LabelledText(name="banking77", split="train", buckets=buckets, subset=Subset(per_class=10), **common),
        evals={"test": Evaluation(data=LabelledText(split="test", buckets=buckets, **common), every_steps=200)},
        optimizer=AdamW(peak_lr=2e-3, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        init_from=From(omit=("head",)),  # its head predicts tokens, this one classes
        checkpoint=Checkpoints(every_steps=200, best="eval/test/accuracy", best_mode="max"),
        num_steps=400,
        batch_size=32,
        log_every_steps=50,
    )
