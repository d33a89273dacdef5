"""RoFormer from scratch: BERT base with rotary positions, masked tokens of Wikipedia and books (Su et al. 2021, 4.2).

    txjax train --config=configs/text/roformer.py --workdir=runs/roformer

The paper's batch, length, rate and 100,000 updates. BooksCorpus is not distributed any more: TFDS's `pg19` replaces it,
in the shares of BERT's pretraining.

Cost: 1.9e18 FLOPs (`flops_per_step` of manifest.json, times num_steps), 1.4 hours of one H100 at 40% of its 989.5
TFLOP/s.
Score: not run here. The paper's F1 on MRPC is 89.5 (BERT: 88.9), its Spearman correlation on STS-B 87.0 (table 2).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import Mixture, TextWindows, Trained, WordPiece
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.bert.card import roformer
from txjax.nn import Attention
from txjax.objectives import MaskedToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

WIKIPEDIA = "wikipedia/20230601.en"

# Dropout of the attention weights is left out, as for BERT.
PLANS = (("roformer", "", "v5e:4x4", ("model.mixer.dropout=0",)),)


def get_config() -> Experiment:
    tokenizer = Trained(algorithm=WordPiece(), size=30522, name=WIKIPEDIA, split="train[:1000000]")

    def windows(name: str, split: str, feature: str = "text") -> TextWindows:
        return TextWindows(name=name, split=split, feature=feature, length=512, tokenizer=tokenizer)

    parts = {"wikipedia": windows(WIKIPEDIA, "train[:99%]"), "books": windows("pg19", "train", "book_text")}
    return Experiment(
        model=roformer("base", dropout=0.1, mixer=Attention(dropout=0.1), dtype="bfloat16"),
        objective=MaskedToken(mask_id=4, vocab=30522),  # [MASK] is the fifth special of `Trained`
        data=Mixture(parts=parts, weights={"wikipedia": 2500.0, "books": 800.0}),
        evals={"valid": Evaluation(data=windows(WIKIPEDIA, "train[99%:]"), every_steps=5000, max_batches=50)},
        optimizer=AdamW(peak_lr=1e-5, b2=0.999, weight_decay=0.01, schedule=Linear(warmup_steps=1000)),
        mesh=Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=100_000,
        batch_size=64,
        log_every_steps=50,
    )
