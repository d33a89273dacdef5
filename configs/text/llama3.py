"""Llama 3 from scratch on C4, 8B, 70B and 405B (Grattafiori et al. 2024, 3.2 and 3.4): 15.6 trillion tokens of 8,192.

    txjax train --config=configs/text/llama3.py --workdir=runs/llama3 --config.microbatches=16
    txjax train --config=configs/text/llama3.py:405B --workdir=runs/llama3_405b --config.microbatches=64

Rates, warm-up and the final batch of 16M tokens are the paper's, without its smaller batches at the start. Frequencies
are scaled only afterwards, for longer texts (`Llama3Scaling`). A byte-level BPE of Llama 3's size is trained on the
first million documents.

Cost: 8.0e23 FLOPs for 8B (`flops_per_step` of manifest.json, times num_steps), 560,000 hours of one H100 at 40% of its
989.5 TFLOP/s. 70B 7.0e24, 405B 3.9e25 FLOPs.
Score: not run here. The model card's accuracy of the base models (3.1) on MMLU with five examples is 66.7% for 8B,
79.3% for 70B and 85.2% for 405B.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.card import llama3
from txjax.nn import Rotary, Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

RATES = {"8B": 3e-4, "70B": 1.5e-4, "405B": 8e-5}
VARIANTS = ("8B", "70B", "405B")
PLANS = (
    ("llama3-405b", "405B", "v5p:8x8x8", ("mesh.fsdp=64", "mesh.tensor=8", "microbatches=32")),
    ("llama3-8b", "8B", "h100:4x8", ("mesh.data=1", "mesh.fsdp=32", "microbatches=8")),
)


def get_config(size: str = "8B") -> Experiment:
    specials = ("<|begin_of_text|>", "<|end_of_text|>")
    tokenizer = Trained(algorithm=BPE(), size=128256, name="c4/en", split="train[:1000000]", specials=specials)
    text = dict(length=8192, tokenizer=tokenizer)
    model = llama3(size, positions=Rotary(theta=500000.0), dtype="bfloat16", stack=Stack(remat="full"))
    return Experiment(
        model=model,
        objective=NextToken(loss=CrossEntropy(chunk=256)),
        data=NextTokenWindows(name="c4/en", split="train", **text),
        evals={
            "valid": Evaluation(data=NextTokenWindows(split="validation", **text), every_steps=1000, max_batches=20)
        },
        optimizer=AdamW(peak_lr=RATES[size], b2=0.95, weight_decay=0.1, schedule=Cosine(warmup_steps=8000, final=0.01)),
        mesh=Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=1000),
        num_steps=930_000,
        batch_size=2048,
        log_every_steps=50,
    )
