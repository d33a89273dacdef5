"""BERT on SWAG: which of four sentences continues a description (Devlin et al. 2019, 4.4).

    txjax train --config=configs/text/swag.py --workdir=runs/swag --config.init_from=runs/bert_512

TFDS's `swag` must be prepared in TFDS_DATA_DIR; the pretrained run is `configs/text/bert_base.py`, or an imported one.
`large` is BERT large.

Cost: 5.9e16 FLOPs of base (`flops_per_step` of manifest.json, times num_steps), 2.5 minutes of one H100 at 40% of its
989.5 TFLOP/s. large 2.1e17 FLOPs.
Score: not run here. The paper has 81.6% (base) and 86.6% (large) of the validation set (table 4).
"""

from txjax.data import Choices, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.card import bert
from txjax.nn import Attention, Classes, Pooler
from txjax.objectives import MultipleChoice
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh
from txjax.transfer import From

VARIANTS = ("base", "large")


def get_config(size: str = "base") -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=30522, name="wikipedia/20230601.en", split="train[:1000000]")
    endings = tuple(f"{{ending{i}}}" for i in range(4))
    texts = dict(context="{sent1} {sent2}", choices=endings, length=128, tokenizer=tokenizer)
    return Experiment(
        model=bert(size, head=Classes(1, Pooler()), dropout=0.1, mixer=Attention(dropout=0.1), dtype="bfloat16"),
        objective=MultipleChoice(),
        data=Choices(name="swag", split="train", **texts),
        evals={"valid": Evaluation(data=Choices(split="validation", **texts), every_steps=1000)},
        optimizer=AdamW(peak_lr=2e-5, b2=0.999, eps=1e-6, weight_decay=0.01, schedule=Linear(warmup_steps=1379)),
        mesh=Mesh(data=-1),
        num_steps=13_790,
        batch_size=16,
        log_every_steps=100,
        init_from=From(omit=("head",)),
    )
