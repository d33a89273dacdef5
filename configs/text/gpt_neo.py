"""GPT-Neo from scratch, all three sizes (Black et al. 2021): global layers and layers with a window of 256 in turn.

    txjax train --config=configs/text/gpt_neo.py --workdir=runs/gpt_neo
    txjax train --config=configs/text/gpt_neo.py:2.7B --workdir=runs/gpt_neo_27b --config.microbatches=8

The recipe is the authors' for 1.3B (github.com/EleutherAI/gpt-neo): 512 windows of 2,048 tokens an update. Their data,
the Pile, is not in TFDS: `c4/en` replaces it, and a byte-level BPE of GPT-2's size is trained on its first million
documents.

Cost: 2.4e20 FLOPs for 125M (`flops_per_step` of manifest.json, times num_steps), 171 hours of one H100 at 40% of its
989.5 TFLOP/s. 1.3B 2.5e21, 2.7B 5.0e21 FLOPs.
Score: not run here. The authors report 0.7527 bits a byte of the Pile for 1.3B, and 0.7165 for 2.7B.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import BPE, NextTokenWindows, Trained
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.card import gpt_neo
from txjax.nn import Stack
from txjax.objectives import CrossEntropy, NextToken
from txjax.optim import AdamW, Cosine
from txjax.sharding import Mesh

RATES = {"125M": 6e-4, "1.3B": 2e-4, "2.7B": 1.6e-4}  # GPT-3's for these sizes; the authors' for 1.3B
VARIANTS = ("125M", "1.3B", "2.7B")
PLANS = (
    ("gpt-neo-2.7b", "2.7B", "v5e:16x16", ("mesh.data=8", "mesh.fsdp=32", "microbatches=2")),
    ("gpt-neo-2.7b", "2.7B", "h100:8", ("mesh.data=1", "mesh.fsdp=8", "microbatches=8")),
)


def get_config(size: str = "125M") -> Experiment:
    tokenizer = Trained(algorithm=BPE(), size=50257, name="c4/en", split="train[:1000000]", specials=("<|endoftext|>",))
    text = dict(length=2048, tokenizer=tokenizer, boundaries=False)
    small = size == "125M"
    return Experiment(
        model=gpt_neo(size, dtype="bfloat16", stack=Stack(remat="none" if small else "dots")),
        objective=NextToken(loss=CrossEntropy(chunk=256)),
        data=NextTokenWindows(name="c4/en", split="train", **text),
        evals={
            "valid": Evaluation(data=NextTokenWindows(split="validation", **text), every_steps=1000, max_batches=20)
        },
        optimizer=AdamW(peak_lr=RATES[size], b2=0.95, weight_decay=0.1, schedule=Cosine(warmup_steps=3000, final=0.1)),
        mesh=Mesh(data=-1) if small else Mesh(data=1, fsdp=-1),
        checkpoint=Checkpoints(every_steps=1000),
        num_steps=286_150,
        batch_size=512,
        log_every_steps=50,
    )
