"""The tokens before an image's patches."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn import Grid, align, parameter


class ClassToken(nn.Module):
    """A learned token before an image's patches (Dosovitskiy et al. 2021). Parameter `token` [D]."""

    count: ClassVar[int] = 1

    @nn.compact
    def __call__(self, x: Float[Array, "B N D"]) -> Float[Array, "B L D"]:
        """The learned tokens, then the patches."""
        return _after_token(self, "token", x)


class DistilledToken(ClassToken):
    """The class token and a second one, whose output is trained on a teacher's labels (Touvron et al. 2021, DeiT).

    Parameters: `token`, `distillation` [D].
    """

    count: ClassVar[int] = 2

    @nn.compact
    def __call__(self, x: Float[Array, "B N D"]) -> Float[Array, "B L D"]:
        return super().__call__(_after_token(self, "distillation", x))


def _after_token(module: nn.Module, name: str, x: Float[Array, "B N D"]) -> Float[Array, "B N+1 D"]:
    """The vectors after a learned one of this name."""
    token = parameter(module, name, nn.initializers.normal(0.02), x.shape[-1:], ("embed",))
    return jnp.concatenate([jnp.broadcast_to(align(token, x), (x.shape[0], 1, x.shape[-1])), x], 1)


def token_positions(grid: Grid, patches: Int[Array, "B N"]) -> Int[Array, "B L"]:
    """The positions of the tokens before the patches and of the patches with these numbers."""
    prefix = jnp.broadcast_to(jnp.arange(grid.prefix, dtype=jnp.int32), (patches.shape[0], grid.prefix))
    return jnp.concatenate([prefix, patches + grid.prefix], 1)
