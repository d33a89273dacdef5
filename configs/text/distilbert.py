"""DistilBERT (Sanh et al. 2019): every second layer of BERT base, trained on as its student.

    txjax train --config=configs/text/bert_base.py --workdir=runs/bert
    txjax train --config=configs/text/bert_base.py:base-512 --workdir=runs/bert_512 --config.init_from=runs/bert
    txjax train --config=configs/text/distilbert.py --workdir=runs/distilbert \
        --config.init_from[0].run=runs/bert_512 --config.init_from[1].run=runs/bert_512

The teacher is BERT base as `configs/text/bert_base.py` trains it, with its tokenizer; the student has no token types
and does not predict which sentence follows. Weights of the losses, temperature and rates are those of the authors'
script, which makes three passes over Wikipedia and books; 6,000 updates are three over 4.2 billion tokens.

Cost: 8.6e18 FLOPs (`flops_per_step` of manifest.json, times num_steps), 6 hours of one H100 at 40% of its
989.5 TFLOP/s, without the teacher's own.
Score: not run here. The paper's average on GLUE is 77.0, and 79.5 of its teacher (table 1).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Mixture, PackedText, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.card import bert, distilbert
from txjax.nn import Attention
from txjax.objectives import Distillation, MaskedToken
from txjax.optim import AdamW, Linear, train_all_but
from txjax.sharding import Mesh
from txjax.transfer import Every, From

WIKIPEDIA = "wikipedia/20230601.en"

# Dropout of the attention weights is left out, as for BERT.
PLANS = (("distilbert", "", "v5e:4x4", ("model.mixer.dropout=0", "microbatches=16")),)


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=30522, name=WIKIPEDIA, split="train[:1000000]")

    def packed(name: str, split: str, feature: str = "text") -> PackedText:
        return PackedText(name=name, split=split, feature=feature, length=512, tokenizer=tokenizer)

    parts = {"wikipedia": packed(WIKIPEDIA, "train[:99%]"), "books": packed("pg19", "train", "book_text")}
    masked = MaskedToken(mask_id=4, vocab=30522)  # [MASK] is the fifth special of `Trained`
    return Experiment(
        model=distilbert(dropout=0.1, mixer=Attention(dropout=0.1), dtype="bfloat16"),
        objective=Distillation(teacher=bert("base", dtype="bfloat16"), objective=masked, chunk=64),
        data=Mixture(parts=parts, weights={"wikipedia": 2500.0, "books": 800.0}),
        evals={"valid": Evaluation(data=packed(WIKIPEDIA, "train[99%:]"), every_steps=1000, max_batches=50)},
        optimizer=AdamW(
            peak_lr=5e-4,
            b2=0.98,
            eps=1e-6,
            weight_decay=0.0,
            clip=5.0,
            groups=train_all_but("teacher/.*"),
            schedule=Linear(warmup_steps=300),
        ),
        init_from=(From(here="teacher"), From(resize=(Every(2),))),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=500, frozen="origin"),
        num_steps=6000,
        batch_size=4096,
        log_every_steps=50,
    )
