"""Parts of speech: the class of each word, by a small BERT or a small decoder, from scratch.

    txjax train --config=configs/text/token_labels.py --workdir=runs/token_labels

Variants: bert (the default) and decoder, which sees the words before alone. `ud_pos/en`, with the features `tokens` and
`tags`, must be prepared in TFDS_DATA_DIR (docs/data.md).

Cost: about 1 minute on two CPU cores.
Score: eval/test/accuracy 0.916, of the words; 0.895 by the decoder. The most frequent class of each word in the
training set is right for 0.861.
"""

from typing import Any

from txjax.data import TokenLabels, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import PreNorm, Rotary, TokenClasses
from txjax.objectives import TokenClassification
from txjax.optim import AdamW, Linear

VARIANTS = ("bert", "decoder")


def get_config(kind: str = "bert") -> Experiment:
    decoder = kind == "decoder"
    tokenizer = Trained(algorithm=WordPiece(), size=4000, name="ud_pos/en", features=("tokens",))
    words = dict(classes=17, length=64, tokenizer=tokenizer, buckets=(16, 32), piece="last" if decoder else "first")
    sizes: dict[str, Any] = dict(vocab=4000, width=64, depth=2, heads=4, dropout=0.1, head=TokenClasses(17))
    return Experiment(
        model=Decoder(**sizes) if decoder else Bert(**sizes, block=PreNorm(), positions=Rotary()),
        objective=TokenClassification(),
        data=TokenLabels(name="ud_pos/en", split="train", **words),
        evals={"test": Evaluation(data=TokenLabels(split="test", **words), every_steps=400)},
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        num_steps=800,
        batch_size=32,
        log_every_steps=100,
    )
