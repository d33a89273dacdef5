"""ELECTRA from scratch (Clark et al. 2020, 3 and A): replaced tokens of Wikipedia and books.

    txjax train --config=configs/text/electra.py --workdir=runs/electra
    txjax train --config=configs/text/electra.py:small --workdir=runs/electra_small

Variants: small (a million updates of 128 windows of 128 tokens), base (766,000 of 256 windows of 512) and large
(1,750,000 of 2,048 windows of 512). 15% of the tokens are masked, 25% for large. The optimizer is Adam with a decay of
0.01, and its rate falls along a line to 0. BooksCorpus is not distributed any more: TFDS's `pg19` replaces it.

Cost: 6.9e19 FLOPs for base (`flops_per_step` of manifest.json, times num_steps), 49 hours of one H100 at 40% of its
989.5 TFLOP/s. small 1.2e18, large 4.1e21 FLOPs.
Score: not run here. The released models' averages on the test set of GLUE are 77.4 (small), 82.7 (base) and 85.2
(large). Large is this recipe; small and base are the paper's Small++ and Base++, trained longer (small for 4 million
updates).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Mixture, TextWindows, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.electra.card import electra
from txjax.nn import Attention, Learned, Stack
from txjax.objectives import ReplacedToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = ("small", "base", "large")
# Dropout of the attention weights is left out, as for BERT.
PLANS = (
    ("electra-large", "large", "v5p:4x4x4", ("model.generator.mixer.dropout=0", "model.discriminator.mixer.dropout=0")),
)
# Length of a window, windows of an update, updates, the peak of the learning rate.
RECIPES = {
    "small": (128, 128, 1_000_000, 5e-4),
    "base": (512, 256, 766_000, 2e-4),
    "large": (512, 2048, 1_750_000, 2e-4),
}
WIKIPEDIA = "wikipedia/20230601.en"


def get_config(size: str = "base") -> Experiment:
    length, batch_size, num_steps, peak_lr = RECIPES[size]
    tokenizer = Trained(algorithm=WordPiece(), size=30522, name=WIKIPEDIA, split="train[:1000000]")

    def windows(name: str, split: str, feature: str = "text") -> TextWindows:
        return TextWindows(name=name, split=split, feature=feature, length=length, tokenizer=tokenizer)

    parts = {"wikipedia": windows(WIKIPEDIA, "train[:99%]"), "books": windows("pg19", "train", "book_text")}
    return Experiment(
        model=electra(
            size,
            positions=Learned(max_length=512),
            dropout=0.1,
            mixer=Attention(dropout=0.1),
            stack=Stack(remat="dots" if size == "large" else "none"),
            dtype="bfloat16",
        ),
        objective=ReplacedToken(
            mask_id=tokenizer.special("[MASK]"), vocab=30522, rate=0.25 if size == "large" else 0.15
        ),
        data=Mixture(parts=parts, weights={"wikipedia": 2500.0, "books": 800.0}),
        evals={"valid": Evaluation(data=windows(WIKIPEDIA, "train[99%:]"), every_steps=10_000, max_batches=50)},
        optimizer=AdamW(peak_lr=peak_lr, b2=0.999, eps=1e-6, weight_decay=0.01, schedule=Linear(warmup_steps=10_000)),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=10_000),
        num_steps=num_steps,
        batch_size=batch_size,
        log_every_steps=100,
    )
