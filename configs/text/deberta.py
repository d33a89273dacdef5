"""DeBERTa from scratch: versions 1 (He et al. 2021, 4 and A) and 3 (He et al. 2023, 5), in all sizes.

    txjax train --config=configs/text/deberta.py --workdir=runs/deberta
    txjax train --config=configs/text/deberta.py:v3-base --workdir=runs/deberta_v3

Version 1 predicts masked tokens, with the enhanced mask decoder: a million updates of 2,048 windows of 512 tokens.
Version 3 finds replaced tokens, with a generator of half the depth and gradient-disentangled embeddings: 500,000
updates of 8,192 windows. The authors' text (Wikipedia, books, OpenWebText, stories, for version 3 news too) is not
distributed: C4 replaces it. The vocabularies are of this text, in the published sizes. The rates of version 3 are not
confirmed; the authors' script for WikiText has 1e-4 in batches of 256.

Cost: 8.7e20 FLOPs for base (`flops_per_step` of manifest.json, times num_steps), 612 hours of one H100 at 40% of its
989.5 TFLOP/s. large 2.6e21, xlarge 5.0e21, v3-xsmall 8.6e20, v3-small 1.5e21, v3-base 2.5e21, v3-large 7.6e21 FLOPs.
Score: not run here. The authors' accuracies on MNLI (matched) are 91.3 (large), 90.6 (v3-base) and 91.8 (v3-large).
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, TextWindows, Trained, Unigram
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.deberta import MaskDecoder
from txjax.models.text.deberta.card import deberta_v1, deberta_v3_with_generator
from txjax.nn import Learned, Stack
from txjax.objectives import MaskedToken, Objective, ReplacedToken
from txjax.optim import AdamW, Linear
from txjax.sharding import Mesh

VARIANTS = ("base", "large", "xlarge", "v3-xsmall", "v3-small", "v3-base", "v3-large")
# A bias of the scores rules out the kernel.
PLANS = (
    ("deberta-xlarge", "xlarge", "v5p:4x4x4", ("mesh.data=8", "mesh.fsdp=8")),
    ("deberta-v3-large", "v3-large", "v5p:4x4x4", ("mesh.data=2", "mesh.fsdp=32", "microbatches=8")),
)
V3 = "v3-"


def get_config(variant: str = "base") -> Experiment:
    size = variant.removeprefix(V3)
    third, big = size != variant, size in ("large", "xlarge")
    vocab = 128100 if third else 50265
    tokenizer = Trained(algorithm=Unigram() if third else BPE(), size=vocab, name="c4/en", split="train[:1000000]")
    style: dict[str, Any] = dict(dropout=0.1, dtype="bfloat16", stack=Stack(remat="full" if big else "dots"))
    masking: dict[str, Any] = dict(mask_id=tokenizer.special("[MASK]"), vocab=vocab)
    model: Any
    objective: Objective
    if third:
        model, objective = deberta_v3_with_generator(size, **style), ReplacedToken(**masking)
        peak_lr, batch_size, num_steps = 3e-4 if big else 6e-4, 8192, 500_000
    else:
        decoder = MaskDecoder(positions=Learned(max_length=512))
        model, objective = deberta_v1(size, mask_decoder=decoder, **style), MaskedToken(**masking)
        peak_lr, batch_size, num_steps = 1e-4 if big else 2e-4, 2048, 1_000_000
    windows: dict[str, Any] = dict(length=512, tokenizer=tokenizer)
    return Experiment(
        model=model,
        objective=objective,
        data=TextWindows(name="c4/en", split="train", **windows),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **windows), every_steps=5000, max_batches=20)},
        optimizer=AdamW(
            peak_lr=peak_lr,
            b2=0.98 if third else 0.999,
            eps=1e-6,
            weight_decay=0.01,
            schedule=Linear(warmup_steps=10_000),
        ),
        mesh=Mesh(data=1, fsdp=-1) if big else Mesh(data=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=num_steps,
        batch_size=batch_size,
        log_every_steps=100,
    )
