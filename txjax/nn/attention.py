"""Attention: the function, its masks, what every layer is told, and the module."""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.nn.cache import remember
from txjax.nn.init import Init
from txjax.nn.linear import Linear
from txjax.nn.positions import Rotation
from txjax.nn.remat import keep
from txjax.types import UserError, setting

_FAR = -1e30  # finite, so that a row with nothing to attend to gives a mean and not a NaN


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Context:
    """What every layer of a stack is told, computed once.

    Attributes:
      mask: bool [B|1 1 L S], True where a query may attend; None = everywhere.
      bias: float32 [B|1 H L S], added to the scores; None = nothing.
      rotation: cosines and sines of `Positions.rotation`; None = queries and keys as they are.
      memory: [B M D], what cross-attention reads.
      memory_mask: bool [B|1 1 L|1 M] for the memory.
      index: int32 [], the row of the cache where this call's keys go; None = no cache.
      train: dropout is active.
    """

    mask: Bool[Array, "#B 1 L S"] | None = None
    bias: Float[Array, "#B H L S"] | None = None
    rotation: Rotation | None = None
    memory: Float[Array, "B M D"] | None = None
    memory_mask: Bool[Array, "#B 1 #L M"] | None = None
    index: Int[Array, ""] | None = None
    train: bool = dataclasses.field(default=False, metadata={"static": True})


def rotate(x: Float[Array, "B L H K"], rotation: Rotation | None) -> Float[Array, "B L H K"]:
    """Turns channels i and i + K/2 by the angles of `rotation`, in float32."""
    if rotation is None:
        return x
    cos, sin = (part[:, :, None, :] for part in rotation)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def attend(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Bool[Array, "#B 1 #L S"] | None = None,
    bias: Float[Array, "#B H L S"] | None = None,
    dropout: Callable[[jax.Array], jax.Array] = lambda weights: weights,
) -> Float[Array, "B L H K"]:
    """softmax(query . key / sqrt(K) + bias) . value, the softmax in float32 (Vaswani et al. 2017, equation 1).

    Each of the G key heads serves H/G neighbouring query heads (Ainslie et al. 2023). The queries are scaled
    before the product and the sum divides after it: fewer passes over the scores. Heads come before places in all
    products: XLA on CPU is slower at any other order.
    """
    (batch, length, heads, size), (_, source, groups, _) = query.shape, key.shape
    query = query * jnp.asarray(size**-0.5, query.dtype)
    query, key, value = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
    query = query.reshape(batch, groups, -1, size)
    scores = jnp.einsum("bgqk,bgsk->bgqs", query, key, preferred_element_type=jnp.float32)
    scores = scores.reshape(batch, heads, length, source)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = jnp.where(mask, scores, _FAR)
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    total = weights.sum(-1, keepdims=True)
    weights = dropout(weights).astype(value.dtype).reshape(batch, groups, -1, source)
    out = jnp.einsum("bgqs,bgsk->bgqk", weights, value, preferred_element_type=jnp.float32)
    out = out.reshape(batch, heads, length, size) / total
    return out.astype(query.dtype).transpose(0, 2, 1, 3)


def head_size(width: int, heads: int, given: int | None = None) -> int:
    """The size of one head. Raises UserError where `heads` doesn't divide `width`."""
    if given is None and width % heads:
        raise UserError("config.model.heads", f"a divisor of the width {width}", heads)
    return given or width // heads


class Attention(nn.Module):
    """Multi-head attention, over the input itself or over a memory.

    Parameters: `query` [D H K], `key` and `value` [D G K], `out` [H K D], each with a bias unless `use_bias` is off.
    With `context.index`, keys and values are kept in the collection "cache".

    Attributes:
      heads: query heads, set by the model.
      kv_heads: key and value heads; set by the model, None = `heads`.
      head_size: None = width / heads.
      use_bias: the four projections have biases.
      dropout: of the attention weights.
      initial, residual: how kernels are drawn, and the output kernel's factor; set by the model.
    """

    heads: int | None = None
    kv_heads: int | None = None
    head_size: int | None = setting(None, at_least=1)
    use_bias: bool = True
    dropout: float = setting(0.0, at_least=0, below=1)
    initial: Init | None = None
    residual: float | None = None

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L D"], context: Context, memory: Float[Array, "B S D"] | None = None
    ) -> Float[Array, "B L D"]:
        """Attention of x over itself under `context`, or over `memory` under its mask alone."""
        assert self.heads and self.initial and self.residual
        width, groups = x.shape[-1], self.kv_heads or self.heads
        size = head_size(width, self.heads, self.head_size)
        if self.heads % groups:
            raise UserError("config.model.kv_heads", f"a divisor of the {self.heads} heads", groups)

        initial, use_bias = self.initial, self.use_bias

        def split(name: str, axis: str, heads: int, source: jax.Array) -> jax.Array:
            linear = Linear((heads, size), (axis, "head_size"), use_bias=use_bias, initial=initial, name=name)
            return keep(linear(source), name)

        source = x if memory is None else memory
        query = split("query", "heads", self.heads, x)
        key, value = (split(name, "kv_heads", groups, source) for name in ("key", "value"))
        drop = nn.Dropout(self.dropout, deterministic=not context.train)
        if memory is not None:
            out = attend(query, key, value, context.memory_mask, None, drop)
        else:
            query, key = (rotate(part, context.rotation) for part in (query, key))
            if context.index is not None:
                key = remember(self, "keys", key, context.index)
                value = remember(self, "values", value, context.index)
            out = attend(query, key, value, context.mask, context.bias, drop)
        inputs = ("heads", "head_size")
        project = Linear((width,), ("embed",), inputs, use_bias, initial, self.residual, name="out")
        return keep(project(keep(out, "attended")), "attention")
