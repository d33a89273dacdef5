"""Other stacks for the small GPT of `gpt_tiny.py`: local and global attention in turn, shared layers, two streams.

    txjax train --config=configs/text/layers_tiny.py --workdir=runs/layers_tiny

Variants: `local_global` (the default; windows of 16 bytes in every other layer, as in GPT-Neo), `shared` (one layer's
parameters for all four, as in ALBERT), `two_streams` (reversible residual streams, as in Reformer).

Cost: about 1 minute on two CPU cores.
Score: eval/valid/loss 1.858, nats a byte of held-out files (first 32 batches); 2.545 `shared`, 1.931 `two_streams`.
"""

from typing import Any

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.models.text.reversible import ReversibleDecoder
from txjax.nn import GPT2, Attention, Rotary, Stack
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine

VARIANTS = ("local_global", "shared", "two_streams")


def get_config(variant: str = "local_global") -> Experiment:
    held_out = NextTokenWindows(split="validation", length=128)
    sizes: dict[str, Any] = dict(vocab=256, width=96, depth=4, heads=3, positions=Rotary(), initial=GPT2())
    model = {
        "local_global": lambda: Decoder(**sizes, mixer=(Attention(), Attention(window=16))),
        "shared": lambda: Decoder(**sizes, stack=Stack(groups=1)),
        "two_streams": lambda: ReversibleDecoder(**sizes),
    }[variant]()
    return Experiment(
        model=model,
        objective=NextToken(),
        data=NextTokenWindows(name="txjax_python_text", split="train", length=128),
        evals={"valid": Evaluation(data=held_out, every_steps=50, max_batches=32)},
        optimizer=AdamW(peak_lr=3e-3, weight_decay=0.1, schedule=Cosine(warmup_steps=20)),
        checkpoint=Checkpoints(every_steps=50, best="eval/valid/loss"),
        num_steps=300,
        batch_size=8,
        log_every_steps=10,
    )
