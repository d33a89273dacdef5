"""A small GPT with a mixture of experts, on the source code of Python's standard library, byte by byte.

    txjax train --config=configs/text/moe_tiny.py --workdir=runs/moe_tiny

It is `gpt_tiny.py` with eight experts of half its hidden size in every layer, of which each byte uses two: as many
products a byte, and 2.9 times the parameters.

Cost: about 1.5 minutes of one CPU core.
Score: eval/valid/loss 1.868, nats a byte of held-out files (first 32 batches), one seed; `gpt_tiny.py` reaches 1.92. At
the end 7.6% of choices are dropped, and every expert has between 11% and 15% of them.
"""

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import GPT2, Capacity, Experts, Rotary
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine


def get_config() -> Experiment:
    held_out = NextTokenWindows(split="validation", length=128)
    experts = Experts(experts=8, top=2, ratio=2.0, routing=Capacity(factor=1.25), balance=0.01, router_z=0.001)
    return Experiment(
        model=Decoder(vocab=256, width=96, depth=4, heads=3, positions=Rotary(), mlp=experts, initial=GPT2()),
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", split="train", length=128),
        evals={"valid": Evaluation(data=held_out, every_steps=50, max_batches=32)},
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=20)),
        checkpoint=Checkpoints(every_steps=50, best="eval/valid/loss"),
        num_steps=300,
        batch_size=8,
        log_every_steps=10,
    )
