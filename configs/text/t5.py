"""T5 from scratch on C4 by span corruption, versions 1.0 and 1.1 in all sizes (Raffel et al. 2020, 3.1.4 and 3.7).

    txjax train --config=configs/text/t5.py --workdir=runs/t5_base
    txjax train --config=configs/text/t5.py:v1_1-xl --workdir=runs/t5_xl --config.microbatches=8

A window of 568 tokens becomes a source of 512 and a target of 114: 85 tokens in 28 spans, a sentinel for each span on
both sides. Updates see 2,048 windows, a million times. The authors train 1.0 on labelled sets too; 1.1 sees C4 alone,
without dropout. A Unigram vocabulary is trained on the first million documents; it has the 100 sentinels.

Cost: 8.7e20 FLOPs for base (`flops_per_step` of manifest.json, times num_steps), 610 hours of one H100 at 40% of its
989.5 TFLOP/s. small 2.2e20, large 3.0e21, 3B 1.2e22, 11B 4.7e22; 1.1: the same up to large, xl 1.1e22, xxl 4.3e22.
Score: not run here. The paper's average on GLUE after fine-tuning is 90.3 for 11B (table 14).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import TextWindows, Trained, Unigram
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.encoder_decoder.card import t5, t5_v1_1
from txjax.nn import Stack
from txjax.objectives import SpanCorruption
from txjax.optim import Adafactor, InverseSquareRoot
from txjax.sharding import Mesh

V1_1 = "v1_1-"
VARIANTS = ("small", "base", "large", "3B", "11B", "v1_1-small", "v1_1-base", "v1_1-large", "v1_1-xl", "v1_1-xxl")
# A bias of the scores rules out the kernel.
PLANS = (
    ("t5-11B", "11B", "v5p:4x4x4", ("mesh.data=2", "mesh.fsdp=32", "microbatches=4")),
    ("t5-v1_1-xxl", "v1_1-xxl", "v5p:4x4x4", ("mesh.data=2", "mesh.fsdp=32", "microbatches=4")),
)
SENTINELS = 100


def get_config(variant: str = "base") -> Experiment:
    size = variant.removeprefix(V1_1)
    small = size in ("small", "base")
    preset = t5 if size == variant else t5_v1_1
    # The first sentinel has the largest id, as in T5's vocabulary.
    specials = ("[PAD]", "[END]", "[UNK]", *(f"[SPAN_{i}]" for i in reversed(range(SENTINELS))))
    tokenizer = Trained(algorithm=Unigram(), size=32128, name="c4/en", split="train[:1000000]", specials=specials)
    text = dict(length=568, tokenizer=tokenizer, boundaries=False)
    return Experiment(
        model=preset(size, dtype="bfloat16", stack=Stack(remat="dots" if small else "full")),
        objective=SpanCorruption(start_id=0, end_id=1, sentinel_id=len(specials) - 1),
        data=TextWindows(name="c4/en", split="train", **text),
        evals={"valid": Evaluation(data=TextWindows(split="validation", **text), every_steps=5000, max_batches=20)},
        optimizer=Adafactor(peak_lr=1e-2, clip=None, schedule=InverseSquareRoot(warmup_steps=0, hold_steps=10_000)),
        mesh=Mesh(data=-1) if small else Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=5000),
        num_steps=1_000_000,
        batch_size=2048,
        log_every_steps=100,
    )
