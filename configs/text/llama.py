"""Llama-style decoders from scratch on C4, 125M to 65B (`txjax/models/text/decoder/card.py` says by which rule).

    txjax train --config=configs/text/llama.py --workdir=runs/llama_125m
    txjax train --config=configs/text/llama.py:7B --workdir=runs/llama_7b --config.microbatches=16

From 7B on the recipe is Llama's own (Touvron et al. 2023, section 2 and table 2): 4M tokens an update, a trillion in
all, 1.4 trillion from 33B on. The others see 20 tokens a parameter (Hoffmann et al. 2022) in updates of half a million,
at GPT-3's rates for their sizes (Brown et al. 2020, table 2.1).

Cost: 2.1e18 FLOPs for 125M (`flops_per_step` of manifest.json, times num_steps), 1.4 hours of one H100 at 40% of its
989.5 TFLOP/s. 350M 1.8e19, 1.3B 2.3e20, 3B 9.0e20, 7B 4.1e22 FLOPs (29,000 such hours), 13B 8.0e22,
33B 2.8e23, 65B 5.6e23.
Score: not run here. Llama 7B's published accuracy on HellaSwag is 76.1% (Touvron et al. 2023, table 3).
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.card import llama
from txjax.nn import Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

LENGTH = 2048
# peak rate, windows an update, updates
RECIPES = {
    "125M": (6e-4, 256, 5_100),
    "350M": (3e-4, 256, 14_300),
    "1.3B": (2e-4, 256, 52_000),
    "3B": (1.6e-4, 256, 103_000),
    "7B": (3e-4, 2048, 238_000),
    "13B": (3e-4, 2048, 238_000),
    "33B": (1.5e-4, 2048, 334_000),
    "65B": (1.5e-4, 2048, 334_000),
}
VARIANTS = tuple(RECIPES)
# FSDP over a part of the devices of v5p:4x4x4: over all of them XLA gathers by sums (2.0 of the least).
PLANS = (
    ("llama-7b", "7B", "v5e:16x16", ("mesh.data=8", "mesh.fsdp=32", "microbatches=8", "model.stack.remat=full")),
    ("llama-7b", "7B", "v5p:4x4x4", ("mesh.data=2", "mesh.fsdp=32", "microbatches=4", "model.stack.remat=full")),
    ("llama-65b", "65B", "v5p:4x4x4", ("mesh.fsdp=32", "mesh.tensor=2", "microbatches=64")),
    ("llama-7b", "7B", "h100:4x8", ("mesh.data=1", "mesh.fsdp=32", "microbatches=16")),
)


def get_config(size: str = "125M") -> Experiment:
    tokenizer = Trained(algorithm=BPE(), size=32000, name="c4/en", split="train[:1000000]", specials=("<s>",))
    text = dict(length=LENGTH, tokenizer=tokenizer)
    model = llama(size, dtype="bfloat16", stack=Stack(remat="none" if size == "125M" else "dots"))
    rate, batch, steps = RECIPES[size]
    return Experiment(
        model=model,
        objective=NextToken(loss=CrossEntropy(chunk=256)),
        data=NextTokenWindows(name="c4/en", split="train", **text),
        evals={
            "valid": Evaluation(data=NextTokenWindows(split="validation", **text), every_steps=1000, max_batches=20)
        },
        optimizer=AdamW(peak_lr=rate, b2=0.95, weight_decay=0.1, schedule=Cosine(warmup_steps=2000, final=0.1)),
        mesh=Mesh(data=-1) if size in ("125M", "350M") else Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=1000),
        num_steps=steps,
        batch_size=batch,
        log_every_steps=50,
    )
