"""Other stacks for the small GPT of `gpt_tiny.py`: local and global attention in turn, shared layers, two streams.

    txjax train --config=configs/text/layers_tiny.py --workdir=runs/layers_tiny

Variants: `local_global` (the default; windows of 16 bytes in every other layer, as in GPT-Neo), `shared` (one layer's
parameters for all four, as in ALBERT), `two_streams` (reversible residual streams, as in Reformer).

Cost: about 1 minute on two CPU cores.
Score: eval/valid/loss 1.858, nats a byte of held-out files (first 32 batches); 2.545 `shared`, 1.931 `two_streams`.
"""

from typing import Any

import flax.linen as nn
from jaxtyping import Array, Float

from txjax.checkpoint import Checkpoints
from txjax.data import NextTokenWindows
from txjax.eval import Evaluation
from txjax.experiment import Experiment
from txjax.models import Decoder
from txjax.nn import GPT2, Attention, LayerContext, PreNorm, Rotary, Stack, Window
from txjax.objectives import NextToken
from txjax.optim import AdamW, Cosine

VARIANTS = ("local_global", "shared", "two_streams")
Streams = tuple[Float[Array, "B L D"], Float[Array, "B L D"]]


class Reversible(PreNorm):
    """y = a + attention(norm(b)), z = b + mlp(norm(y)) (Kitaev et al. 2020, equation 9)."""

    @nn.compact
    def __call__(self, x: Streams, context: LayerContext, depth_fraction: Any = 1.0) -> Streams:
        assert self.attention and self.mlp and self.norm
        a, b = x
        a = a + self.attention(self.norm.clone(parent=self, name="norm_attention")(b), context)
        b = b + self.mlp(self.norm.clone(parent=self, name="norm_mlp")(a), context.train, context.real)
        return a, b


class TwoStreams(Decoder, kw_only=True):
    """A decoder with two residual streams, both of which begin with the embeddings; the head reads their mean."""

    @nn.nowrap
    def layers(self, x: Float[Array, "B L D"], window: Window, train: bool, *more: Any) -> Float[Array, "B L D"]:
        a, b = self.stream((x, x), window, train, *more)
        return self.norm.clone(parent=self, name="norm_final")((a + b) / 2)


def get_config(variant: str = "local_global") -> Experiment:
    held_out = NextTokenWindows(split="validation", length=128)
    sizes: dict[str, Any] = dict(vocab=256, width=96, depth=4, heads=3, positions=Rotary(), initial=GPT2())
    model = {
        "local_global": lambda: Decoder(**sizes, attention=(Attention(), Attention(window=16))),
        "shared": lambda: Decoder(**sizes, stack=Stack(groups=1)),
        "two_streams": lambda: TwoStreams(**sizes, block=Reversible()),
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
