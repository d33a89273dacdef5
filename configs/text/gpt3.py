"""GPT-3 from scratch on C4, all eight sizes (Brown et al. 2020, table 2.1 and appendix B): 300 billion tokens.

    txjax train --config=configs/text/gpt3.py --workdir=runs/gpt3
    txjax train --config=configs/text/gpt3.py:175B --workdir=runs/gpt3_175b --config.microbatches=16

Rates and batches are the paper's, but for the ramp of the batch at the start and the end of the cosine, which the paper
reaches after 260 billion tokens. All layers are dense; the paper's banded ones, whose width it doesn't print, would be
`--config.model.mixer=(Attention(),Attention(window=256))`. A byte-level BPE of GPT-2's size is trained on the first
million documents.

Cost: 2.6e20 FLOPs for 125M (`flops_per_step` of manifest.json, times num_steps), 180 hours of one H100 at 40% of its
989.5 TFLOP/s. 350M 7.3e20, 760M 1.5e21, 1.3B 2.5e21, 2.7B 5.1e21, 6.7B 1.3e22, 13B 2.4e22, 175B 3.2e23 FLOPs.
Score: not run here. The paper's accuracy on LAMBADA without examples is 76.2% for 175B.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.card import gpt3
from txjax.nn import Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

LENGTH = 2048
TOKENS, WARMUP = 300e9, 375e6
# peak rate, windows an update (half a million tokens to 3.2 million)
RECIPES = {
    "125M": (6e-4, 256),
    "350M": (3e-4, 256),
    "760M": (2.5e-4, 256),
    "1.3B": (2e-4, 512),
    "2.7B": (1.6e-4, 512),
    "6.7B": (1.2e-4, 1024),
    "13B": (1e-4, 1024),
    "175B": (0.6e-4, 1600),
}
VARIANTS = ("125M", "350M", "760M", "1.3B", "2.7B", "6.7B", "13B", "175B")
# 1,600 windows are 64 times 25, so tensor parallelism takes the other factor of 8, which the vocabulary lacks.
PLANS = (
    (
        "gpt3-175b",
        "175B",
        "v5p:8x8x8",
        ("mesh.fsdp=64", "mesh.tensor=8", "mesh.rules={'vocab': ()}", "microbatches=25"),
    ),
)


def get_config(size: str = "125M") -> Experiment:
    tokenizer = Trained(algorithm=BPE(), size=50257, name="c4/en", split="train[:1000000]", specials=("<|endoftext|>",))
    text = dict(length=LENGTH, tokenizer=tokenizer, boundaries=False)
    model = gpt3(size, dtype="bfloat16", stack=Stack(remat="none" if size == "125M" else "dots"))
    rate, batch = RECIPES[size]
    return Experiment(
        model=model,
        objective=NextToken(loss=CrossEntropy(chunk=256)),
        data=NextTokenWindows(name="c4/en", split="train", **text),
        evals={
            "valid": Evaluation(data=NextTokenWindows(split="validation", **text), every_steps=1000, max_batches=20)
        },
        optimizer=AdamW(
            peak_lr=rate,
            b2=0.95,
            weight_decay=0.1,
            schedule=Cosine(warmup_steps=int(WARMUP / (batch * LENGTH)), final=0.1),
        ),
        mesh=Mesh(data=-1) if size in ("125M", "350M") else Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=1000),
        num_steps=int(TOKENS / (batch * LENGTH)),
        batch_size=batch,
        log_every_steps=50,
    )
