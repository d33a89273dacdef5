"""ALBERT version 2 from scratch (Lan et al. 2020): one layer for all, factorised embeddings, the order of sentences.

    txjax train --config=configs/text/albert.py --workdir=runs/albert
    txjax train --config=configs/text/albert.py:xxlarge --workdir=runs/albert_xxlarge --config.microbatches=8

Two halves of a stretch of a document are in their order or swapped (3.1). The authors mask n-grams of up to three
tokens and use LAMB at a rate of 1.76e-3; here single tokens are masked, and AdamW has RoBERTa's rate for base and large
and a third of it for the wider ones. 125,000 updates are those of the paper's comparisons. BooksCorpus is not
distributed any more: `pg19` replaces it, in BERT's shares.

Cost: 1.5e20 FLOPs for base (`flops_per_step` of manifest.json, times num_steps), 105 hours of one H100 at 40% of its
989.5 TFLOP/s; large 5.2e20, xlarge 2.0e21, xxlarge 3.9e21: a layer that is shared costs what another one does.
Score: not run here. The authors' accuracies on MNLI, after 10 million updates of base and 3 million of the others, are
84.6 (base), 86.5 (large), 87.9 (xlarge) and 90.6 (xxlarge).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Mixture, SentencePairs, Trained, Unigram
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.card import albert
from txjax.nn import Stack
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = ("base", "large", "xlarge", "xxlarge")
PLANS = (("albert-xxlarge", "xxlarge", "v5p:4x4x4", ("microbatches=8",)),)
WIKIPEDIA = "wikipedia/20230601.en"


def get_config(size: str = "base") -> Experiment:
    tokenizer = Trained(algorithm=Unigram(), size=30000, name=WIKIPEDIA, split="train[:1000000]")

    def pairs(name: str, split: str, feature: str = "text") -> SentencePairs:
        return SentencePairs(name=name, split=split, feature=feature, length=512, tokenizer=tokenizer, other="swapped")

    parts = {"wikipedia": pairs(WIKIPEDIA, "train[:99%]"), "books": pairs("pg19", "train", "book_text")}
    wide = size in ("xlarge", "xxlarge")
    return Experiment(
        model=albert(size, dtype="bfloat16", stack=Stack(groups=1, remat="full" if wide else "dots")),
        objective=MaskedToken(mask_id=4, vocab=30000),  # [MASK] is the fifth special of `Trained`
        data=Mixture(parts=parts, weights={"wikipedia": 2500.0, "books": 800.0}),
        evals={"valid": Evaluation(data=pairs(WIKIPEDIA, "train[99%:]"), every_steps=5000, max_batches=50)},
        optimizer=AdamW(
            peak_lr=2e-4 if wide else 6e-4, b2=0.98, eps=1e-6, weight_decay=0.01, schedule=Linear(warmup_steps=3125)
        ),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=2500),
        num_steps=125_000,
        batch_size=4096,
        log_every_steps=100,
    )
