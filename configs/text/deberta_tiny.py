"""A small DeBERTa that predicts masked bytes in the source code of Python's standard library.

    txjax train --config=configs/text/deberta_tiny.py --workdir=runs/deberta_tiny
    txjax train --config=configs/text/deberta_tiny.py:v3 --workdir=runs/deberta_v3_tiny

Variants: v1 (the default: masked tokens, which the enhanced mask decoder predicts with absolute positions) and v3
(replaced tokens, with a generator of half the depth, whose embeddings the discriminator adds its own to). Data, sizes
and updates are those of `mlm_tiny`, whose positions are learned.

Cost: 600 updates of 32 windows, each about 1.5 times as long as in `mlm_tiny`.
Score: not measured yet; eval/valid/loss of `mlm_tiny` is 2.865 nats a masked byte.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import Bytes, TextWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Deberta, Electra, GradientDisentangled, MaskDecoder, deberta_v3
from txjax.nn import LayerNorm, Learned, RelativeEmbeddings, ReplacedTokens
from txjax.objectives import MaskedToken, Objective, ReplacedToken
from txjax.optim import AdamW, Linear

VARIANTS = ("v1", "v3")


def get_config(version: str = "v1") -> Experiment:
    windows = dict(length=128, tokenizer=Bytes(specials=("[MASK]",)))
    sizes: dict[str, Any] = dict(vocab=257, width=128, heads=4)
    model: Any = Deberta(
        depth=4,
        positions=RelativeEmbeddings(max_distance=32),
        mask_decoder=MaskDecoder(positions=Learned(max_length=128)),
        **sizes,
    )
    objective: Objective = MaskedToken(mask_id=256, vocab=256)
    best, best_mode = "eval/valid/loss", "min"

    def third(depth: int, **fields: Any) -> Deberta:
        positions = RelativeEmbeddings(max_distance=128, buckets=32, norm=LayerNorm(eps=1e-7))
        return deberta_v3(depth=depth, positions=positions, **sizes, **fields)

    if version == "v3":
        model = Electra(
            generator=third(2), discriminator=third(4, head=ReplacedTokens()), sharing=GradientDisentangled()
        )
        objective = ReplacedToken(mask_id=256, vocab=256)
        best, best_mode = "eval/valid/replaced_auc", "max"
    return Experiment(
        model=model,
        objective=objective,
        data=TextWindows(name="txjax_python_text", split="train", **windows),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **windows), every_steps=200, max_batches=32)},
        optimizer=AdamW(peak_lr=1e-3, b2=0.98, weight_decay=0.01, schedule=Linear(warmup_steps=100)),
        checkpoint=Checkpoints(every_steps=200, best=best, best_mode=best_mode),
        num_steps=600,
        batch_size=32,
        log_every_steps=25,
    )
