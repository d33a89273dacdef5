"""BERT from scratch (Devlin et al. 2019, 3.1 and A.2): masked tokens and sentence pairs of Wikipedia and books.

Nine updates in ten see windows of 128 tokens, the last tenth of 512, so there are two runs; the second starts from the
weights of the first. `large` and `large-512` are BERT large.

    txjax train --config=configs/text/bert_base.py --workdir=runs/bert
    txjax train --config=configs/text/bert_base.py:base-512 --workdir=runs/bert_512 --config.init_from=runs/bert

The second run starts with fresh moments, at the final rate of the first one. BooksCorpus is not distributed any
more: TFDS's `pg19` replaces it, in the paper's shares of 2,500 to 800 (million words).

Cost: 2.4e19 FLOPs for the two runs of base (`flops_per_step` of manifest.json, times num_steps), 16 hours of one H100
at 40% of its 989.5 TFLOP/s; of large 8.2e19.
Score: not run here. The paper's test scores on GLUE average 79.6 for base and 82.1 for large (table 1).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Mixture, SentencePairs, Trained, WordPiece
from txjax.errors import UserError, near_misses
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.card import bert
from txjax.nn import Attention, Stack
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = ("base", "large", "base-512", "large-512")
# Dropout of the attention weights rules out the kernel; later recipes do without (Portes et al. 2023).
PLANS = (
    ("bert-large", "large-512", "v5e:16x16", ("model.mixer.dropout=0", "batch_size=4096", "mesh.data=-1")),
    ("bert-large", "large-512", "v5p:4x4x4", ("model.mixer.dropout=0", "batch_size=4096", "mesh.data=-1")),
    (
        "bert-large",
        "large-512",
        "h100:8",
        ("model.mixer.dropout=0", "batch_size=1024", "mesh.data=-1", "microbatches=2"),
    ),
)
WIKIPEDIA = "wikipedia/20230601.en"


def get_config(variant: str = "base") -> Experiment:
    if variant not in VARIANTS:
        raise UserError("--config", "a variant among " + ", ".join(VARIANTS), variant, near_misses(variant, VARIANTS))
    size, _, length = variant.partition("-")
    tokenizer = Trained(algorithm=WordPiece(), size=30522, name=WIKIPEDIA, split="train[:1000000]")

    def pairs(name: str, split: str, feature: str = "text") -> SentencePairs:
        return SentencePairs(name=name, split=split, feature=feature, length=int(length or 128), tokenizer=tokenizer)

    parts = {"wikipedia": pairs(WIKIPEDIA, "train[:99%]"), "books": pairs("pg19", "train", "book_text")}
    # A line from 1e-4 after 10,000 updates to 0 after 1,000,000: 900,000 of them here, the rest in the second run.
    rates = {"peak_lr": 1e-4, "schedule": Linear(warmup_steps=10_000, final=0.1 / 0.99)}
    if length:
        rates = {"peak_lr": 1e-4 * 0.1 / 0.99, "schedule": Linear(warmup_steps=0)}
    return Experiment(
        model=bert(
            size,
            dropout=0.1,
            mixer=Attention(dropout=0.1),
            stack=Stack(remat="dots" if size == "large" else "none"),
            dtype="bfloat16",
        ),
        objective=MaskedToken(mask_id=4, vocab=30522),  # [MASK] is the fifth special of `Trained`
        data=Mixture(parts=parts, weights={"wikipedia": 2500.0, "books": 800.0}),
        evals={"valid": Evaluation(data=pairs(WIKIPEDIA, "train[99%:]"), every_steps=10_000, max_batches=50)},
        optimizer=AdamW(b2=0.999, eps=1e-6, weight_decay=0.01, **rates),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=10_000),
        num_steps=100_000 if length else 900_000,
        batch_size=256,
        log_every_steps=100,
    )
