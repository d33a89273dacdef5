"""The attention module, and the context that every layer receives."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.nn.cache import update_cache
from txjax.nn.context_parallel import AllGatherKV, ContextParallel
from txjax.nn.init import Init
from txjax.nn.linear import Linear, scale
from txjax.nn.mask import NO_MASK, Mask
from txjax.nn.positions import Rotation
from txjax.nn.remat import checkpoint_name
from txjax.parametrization import Scaling
from txjax.types import UserError, config_field, near_misses

PROJECTIONS = ("query", "key", "value", "out")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerContext:
    """Inputs that all layers of a stack share, computed once a forward pass.

    Attributes:
      mask: which keys a query sees.
      bias: float32 [B|1 H L S], added to the scores. If None, nothing is added.
      rotation: cosines and sines of `Positions.rotation`. If None, queries and keys are not rotated.
      memory: [B M D], what cross-attention reads.
      memory_mask: which positions of the memory a query sees.
      index: int32 [], the row of the cache where this call's keys are written. If None, there is no cache.
      train: whether dropout is active.
    """

    mask: Mask = NO_MASK
    bias: Float[Array, "#B H L S"] | None = None
    rotation: Rotation | None = None
    memory: Float[Array, "B M D"] | None = None
    memory_mask: Mask = NO_MASK
    index: Int[Array, ""] | None = None
    train: bool = dataclasses.field(default=False, metadata={"static": True})

    @property
    def real(self) -> Bool[Array, "#B L"] | None:
        """Which tokens are not padding. If None, all are real."""
        return None if self.mask.segments is None else self.mask.segments[0] > 0


def rotate(x: Float[Array, "B L H K"], rotation: Rotation | None) -> Float[Array, "B L H K"]:
    """Rotates channels i and i + K/2 by the angles of `rotation`, in float32."""
    if rotation is None:
        return x
    cos, sin = (part[:, :, None, :] for part in rotation)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def head_size(width: int, heads: int, given: int | None = None) -> int:
    """The size of one head. Raises UserError if `heads` doesn't divide `width`."""
    if given is None and width % heads:
        raise UserError("config.model.heads", f"a divisor of the width {width}", heads)
    return given or width // heads


class Attention(nn.Module):
    """Multi-head self-attention, or cross-attention to a memory.

    Parameters: `query` [D H K], `key` and `value` [D G K], `out` [H K D], with a bias where `biases` names it.
    With `context.index`, keys and values are written to the collection "cache".

    Attributes:
      heads: query heads, set by the model.
      kv_heads: key and value heads, set by the model. If None, `heads`.
      head_size: If None, width / heads.
      use_bias: whether the projections in `biases` have biases.
      biases: some of `query`, `key`, `value` and `out`; Qwen2's are `("query", "key", "value")`.
      window: a token attends to those less than this many positions away (Beltagy et al. 2020). If None, no limit.
      context_parallel: how queries get the keys of other devices if the mesh shards the length: `AllGatherKV`,
        `RingAttention`.
      dropout: of the attention weights.
      initial, residual_scale: how kernels are initialised, and the output kernel's factor; set by the model.
      scaling: factors that follow from the model's size; set by the model.
    """

    heads: int | None = None
    kv_heads: int | None = None
    head_size: int | None = config_field(None, at_least=1)
    use_bias: bool = True
    biases: tuple[str, ...] = PROJECTIONS
    window: int | None = config_field(None, at_least=1)
    context_parallel: ContextParallel = dataclasses.field(default_factory=AllGatherKV)
    dropout: float = config_field(0.0, at_least=0, below=1)
    initial: Init | None = None
    residual_scale: float | None = None
    scaling: Scaling | None = None

    def has_bias(self, projection: str) -> bool:
        """Whether one of `PROJECTIONS` has a bias. Raises UserError if `biases` names anything else."""
        for name in self.biases:
            if name not in PROJECTIONS:
                expected = "some of " + ", ".join(PROJECTIONS)
                raise UserError("config.model.attention.biases", expected, name, near_misses(name, PROJECTIONS))
        return self.use_bias and projection in self.biases

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L D"], context: LayerContext, memory: Float[Array, "B S D"] | None = None
    ) -> Float[Array, "B L D"]:
        """Self-attention of x under `context`, or cross-attention to `memory` under `context.memory_mask` alone."""
        assert self.heads and self.initial and self.residual_scale and self.scaling
        width, groups = x.shape[-1], self.kv_heads or self.heads
        size = head_size(width, self.heads, self.head_size)
        if self.heads % groups:
            raise UserError("config.model.kv_heads", f"a divisor of the {self.heads} heads", groups)

        initial, scaling = self.initial, self.scaling

        def split(name: str, axis: str, heads: int, source: jax.Array) -> jax.Array:
            bias = self.has_bias(name)
            axes = (axis, "head_size")
            linear = Linear((heads, size), axes, use_bias=bias, initial=initial, scaling=scaling, name=name)
            return checkpoint_name(linear(source), name)

        source = x if memory is None else memory
        query = scale(split("query", "heads", self.heads, x), scaling.attention())
        key, value = (split(name, "kv_heads", groups, source) for name in ("key", "value"))
        drop = nn.Dropout(self.dropout, deterministic=False) if self.dropout and context.train else None
        if memory is not None:
            out = self.context_parallel(query, key, value, context.memory_mask, None, drop)
        else:
            query, key = (rotate(part, context.rotation) for part in (query, key))
            if context.index is not None:
                key = update_cache(self, "keys", key, context.index, "kv_heads")
                value = update_cache(self, "values", value, context.index, "kv_heads")
            mask = context.mask
            if self.window is not None:
                assert mask.window is None
                mask = dataclasses.replace(mask, window=self.window)
            out = self.context_parallel(query, key, value, mask, context.bias, drop)
        inputs = ("heads", "head_size")
        use_bias = self.has_bias("out")
        project = Linear((width,), ("embed",), inputs, use_bias, initial, self.residual_scale, scaling, name="out")
        return checkpoint_name(project(out), "attention")
