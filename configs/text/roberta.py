"""RoBERTa from scratch (Liu et al. 2019): whole documents, masked anew in every epoch, in batches of 8,192.

    txjax train --config=configs/text/roberta.py --workdir=runs/roberta
    txjax train --config=configs/text/roberta.py:large --workdir=runs/roberta_large --config.microbatches=8

Windows of 512 tokens hold as many whole documents as fit and no token sees another document (the paper's
DOC-SENTENCES, table 2). TFDS has Wikipedia, `pg19` in place of BooksCorpus, and the parts of C4 that resemble news
and linked pages in place of CC-News and OpenWebText; the weights are the paper's gigabytes (3.2). Its fourth source,
Stories, is not there.

Cost: 1.3e21 FLOPs for base (`flops_per_step` of manifest.json, times num_steps), 890 hours of one H100 at 40% of its
989.5 TFLOP/s; large 4.2e21.
Score: not run here. The paper's accuracy on MNLI is 90.2 for large.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, Mixture, PackedText, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.card import roberta
from txjax.nn import Attention, Stack
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = ("base", "large")
# Dropout of the attention weights is left out, as for BERT.
PLANS = (
    ("roberta-large", "large", "v5p:4x4x4", ("model.mixer.dropout=0", "microbatches=4")),
    ("roberta-large", "large", "h100:4x8", ("model.mixer.dropout=0", "microbatches=8")),
)
WIKIPEDIA = "wikipedia/20230601.en"
# Peak learning rates and updates of warm-up (table 9).
RATES = {"base": (6e-4, 24_000), "large": (4e-4, 30_000)}


def get_config(size: str = "base") -> Experiment:
    tokenizer = Trained(algorithm=BPE(), size=50265, name=WIKIPEDIA, split="train[:1000000]")

    def packed(name: str, split: str, feature: str = "text") -> PackedText:
        return PackedText(name=name, split=split, feature=feature, length=512, tokenizer=tokenizer)

    parts = {
        "wikipedia": packed(WIKIPEDIA, "train[:99%]"),
        "books": packed("pg19", "train", "book_text"),
        "news": packed("c4/realnewslike", "train"),
        "links": packed("c4/webtextlike", "train"),
    }
    model = roberta(
        size,
        dropout=0.1,
        mixer=Attention(dropout=0.1),
        stack=Stack(remat="dots" if size == "large" else "none"),
        dtype="bfloat16",
    )
    rate, warmup = RATES[size]
    return Experiment(
        model=model,
        objective=MaskedToken(mask_id=4, vocab=50265),  # [MASK] is the fifth special of `Trained`
        data=Mixture(parts=parts, weights={"wikipedia": 12.0, "books": 4.0, "news": 76.0, "links": 38.0}),
        evals={"valid": Evaluation(data=packed(WIKIPEDIA, "train[99%:]"), every_steps=10_000, max_batches=50)},
        optimizer=AdamW(
            peak_lr=rate, b2=0.98, eps=1e-6, weight_decay=0.01, clip=None, schedule=Linear(warmup_steps=warmup)
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=500_000,
        batch_size=8192,
        log_every_steps=100,
    )
