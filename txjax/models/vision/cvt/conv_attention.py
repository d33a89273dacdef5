"""Attention whose queries, keys and values are projections of convolved tokens (Wu et al. 2021, CvT)."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.attention import Attention
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import PROJECTIONS
from txjax.nn.conv.normed_conv import NormedConv
from txjax.nn.layers.norms import BatchNorm, Norm
from txjax.nn.positions.positions import padded_image
from txjax.types import config_field


class ConvAttention(Attention):
    """Attention among an image's tokens, after a convolution for each of queries, keys and values (3.2).

    The convolutions of keys and values have a stride, so that there are fewer keys than queries. Tokens before the
    patches are projected as they are. By default scores have the factor (H K)^-1/2, the width's and not a head's as in
    the authors' code, for which the kernel of the queries isn't drawn larger.

    Parameters: those of `Attention`, and `conv_query`, `conv_key`, `conv_value` with `conv` and `norm` each.

    Attributes:
      side: of the convolutions' kernels, an odd number.
      stride: of the convolutions of keys and values.
      norm: of the convolved tokens, a template.
    """

    side: int = config_field(3, at_least=1)
    stride: int = config_field(2, at_least=1)
    norm: Norm = dataclasses.field(default_factory=BatchNorm)

    @nn.nowrap
    def query_factors(self, size: int) -> tuple[float, float]:
        if self.scale is not None:
            return super().query_factors(size)
        assert self.heads and self.kernel_init
        scaling = self.kernel_init.scaling
        heads = self.heads * scaling.head_size / scaling.width  # the base's
        return 1.0, heads**-0.5 * scaling.attention()

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Raises UserError unless the tokens are a whole grid's, without positions that count them."""
        assert self.kernel_init
        where = "config.model.mixer"
        grid = context.grid
        if self.side % 2 == 0:
            raise UserError(f"{where}.side", "an odd number", self.side)
        ordered = context.mask.causal or context.mask.segments is not None or self.window is not None
        if grid is None or ordered or context.bias is not None or context.rotation is not None:
            hint = "keys are fewer than tokens: all patches of a grid, without masks, rotations or biases of positions"
            raise UserError(where, "Attention() for these tokens", f"{type(self).__name__}()", hint=hint)
        before = x[:, : grid.prefix]
        image = padded_image(x[:, grid.prefix :], grid._replace(prefix=0), 1)
        fields: dict[str, Any] = {"norm": self.norm, "kernel_init": self.kernel_init}

        def convolved(name: str, stride: int) -> jax.Array:
            conv = NormedConv(x.shape[-1], side=self.side, stride=stride, depthwise=True, **fields, name=f"conv_{name}")
            y = conv(image, context.train)
            return jnp.concatenate([before, y.reshape(y.shape[0], -1, y.shape[-1])], 1)

        query, key, value, _ = PROJECTIONS
        return convolved(query, 1), convolved(key, self.stride), convolved(value, self.stride)
