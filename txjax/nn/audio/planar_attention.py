"""Attention over the time and over the frequencies of an image of audio."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.audio.subsampling import ImageModule, frame_mask, zero_padding
from txjax.nn.conv.conv import Conv
from txjax.nn.kernels.attention_dispatch import dot_product_attention
from txjax.nn.kernels.mask import Mask
from txjax.types import config_field


class PlanarAttention(ImageModule):
    """The 2-D attention of Dong et al. (2018, 3.3): W^O * [attention over time; attention over frequency].

    Convolutions give c channels of queries, keys and values. Each channel is a head: its rows attend to its rows, and
    its columns to its columns. A convolution of all 2c results gives the image.

    softmax(Q K^T / sqrt(d)) V, where d is the number of columns, or of the rows that are not padding.

    Parameters: `query`, `key`, `value` [3 3 C c], `out` [3 3 2c C].

    Attributes:
      channels: c.
    """

    channels: int = config_field(64, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B T M C"], length: Int[Array, "B"] | None = None) -> Float[Array, "B T M C"]:
        assert self.kernel_init
        fields: dict[str, Any] = {"axes": ("channels",), "in_axis": "channels", "kernel_init": self.kernel_init}
        query, key, value = (
            zero_padding(Conv((self.channels,), **fields, name=name)(x), length) for name in ("query", "key", "value")
        )
        rows, columns = x.shape[1:3]
        segments = None if length is None else frame_mask(length, rows).astype(jnp.int32)
        over_time = dot_product_attention(_as_rows(query), _as_rows(key), _as_rows(value), Mask.within(segments))
        over_time = _as_rows(over_time)
        # The kernel divides by the root of all rows, padding among them.
        share = 1.0 if length is None else jnp.sqrt(rows / jnp.maximum(length, 1))[:, None, None, None]
        scaled = (query * share).astype(query.dtype)
        over_frequency = dot_product_attention(_as_columns(scaled), _as_columns(key), _as_columns(value))
        over_frequency = over_frequency.transpose(0, 3, 1, 2)
        both = zero_padding(jnp.concatenate([over_time, over_frequency], -1), length)
        return Conv((x.shape[-1],), **fields, name="out")(both)


def _as_rows(x: Float[Array, "B T M c"]) -> Float[Array, "B T c M"]:
    """Tokens of time, heads of channels; and back."""
    return x.swapaxes(2, 3)


def _as_columns(x: Float[Array, "B T M c"]) -> Float[Array, "B M c T"]:
    """Tokens of frequencies, heads of channels."""
    return x.transpose(0, 2, 3, 1)
