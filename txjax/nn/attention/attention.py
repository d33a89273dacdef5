"""Attention in steps that a subclass can override, and the context that every layer receives."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.nn.attention.cache import update_cache
from txjax.nn.attention.memory import Memory
from txjax.nn.kernels.context_parallel import AllGatherKV, ContextParallel
from txjax.nn.kernels.mask import NO_MASK, Mask
from txjax.nn.kernels.reference_attention import attention_weights, log_normaliser
from txjax.nn.layers.linear import Linear, scale
from txjax.nn.layers.norms import Norm
from txjax.nn.parameters.adapter_hooks import attend_with_adapter
from txjax.nn.parameters.init import Init
from txjax.nn.parameters.remat import checkpoint_name
from txjax.nn.positions.positions import Grid, Rotation
from txjax.parametrization import Scaling
from txjax.types import UserError, config_field, near_misses

PROJECTIONS = ("query", "key", "value", "out")
MAPS = "attention_maps"  # the collection of the attention weights [B H L S], filled where it is mutable


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LayerContext:
    """Inputs that all layers of a stack share, computed once a forward pass.

    Attributes:
      mask: which keys a query sees.
      bias: float32 [B|1 H L S], added to the scores. If None, nothing is added.
      rotation: cosines and sines of `Positions.rotation`. If None, queries and keys are not rotated.
      memory: what cross-attention reads. If None, there is no cross-attention.
      index: int32 [], the row of the cache where this call's keys are written. If None, there is no cache.
      train: whether dropout is active.
      grid: the order of an image's tokens. If None, they are not all patches of a grid.
      relative: the vectors of `Positions.relative`. If None, there are none.
      added: of `Window.added`, for `PositionedAttention`. If None, nothing is added.
      prompt: how many of the first tokens are an adapter's (`adapters.Prompt`).
      adapter: what an adapter computed once for all layers (`adapters.MLPPrefix`), its first dimension 1. If None,
        nothing.
    """

    mask: Mask = NO_MASK
    bias: Float[Array, "#B H L S"] | None = None
    rotation: Rotation | None = None
    memory: Memory | None = None
    index: Int[Array, ""] | None = None
    train: bool = dataclasses.field(default=False, metadata={"static": True})
    grid: Grid | None = dataclasses.field(default=None, metadata={"static": True})
    relative: Float[Array, "1 R D"] | None = None
    added: Float[Array, "#B L D"] | None = None
    prompt: int = dataclasses.field(default=0, metadata={"static": True})
    adapter: Float[Array, "1 n M"] | None = None

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


class Mixer(nn.Module):
    """Base of a block's first branch, in which the positions of a sequence exchange information.

    Attributes:
      heads, kv_heads: set by the model; a mixer without heads ignores them.
      initial, residual_scale: how kernels are initialised, and the output kernel's factor; set by the model.
      scaling: factors that follow from the model's size; set by the model.
      takes_prompts: whether an adapter's tokens may be among those of the sequence.
    """

    takes_prompts: ClassVar[bool] = False

    heads: int | None = None
    kv_heads: int | None = None
    initial: Init | None = None
    residual_scale: float | None = None
    scaling: Scaling | None = None

    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """The branch's output, of the shape and dtype of x."""
        raise NotImplementedError


class MultiHead(Mixer):
    """Base of mixers that project tokens to queries, keys and values of several heads, and the heads back to tokens.

    Parameters: `query` [D H K], `key` and `value` [D G K], `out` [H K D], with a bias where `biases` names it;
    `norm_query` and `norm_key` [K] with `qk_norm`.

    Attributes:
      head_size: If None, width / heads.
      use_bias: whether the projections in `biases` have biases.
      biases: some of `query`, `key`, `value` and `out`; Qwen2's are `("query", "key", "value")`.
      qk_norm: the template of the norms of each head's queries and keys, before they are rotated (Henry et al. 2020,
        Dehghani et al. 2023; Qwen3's is `RMSNorm()`). If None, there are none.
    """

    head_size: int | None = config_field(None, at_least=1)
    use_bias: bool = True
    biases: tuple[str, ...] = PROJECTIONS
    qk_norm: Norm | None = None

    def has_bias(self, projection: str) -> bool:
        """Whether one of `PROJECTIONS` has a bias. Raises UserError if `biases` names anything else."""
        for name in self.biases:
            if name not in PROJECTIONS:
                expected = "some of " + ", ".join(PROJECTIONS)
                raise UserError("config.model.attention.biases", expected, name, near_misses(name, PROJECTIONS))
        return self.use_bias and projection in self.biases

    @nn.nowrap
    def query_factors(self, size: int) -> tuple[float, float]:
        """Factors of the query kernel at initialisation, and of the queries, in heads of this size."""
        return 1.0, 1.0

    @nn.nowrap
    def project(self, name: str, source: Float[Array, "B S D"], width: int | None = None) -> Float[Array, "B S H K"]:
        """The projection `query`, `key` or `value` of a source, normalised; the queries have their factor.

        Args:
          width: of the residual stream, if the source's is another.
        """
        return self.projection(name, name, width or source.shape[-1])(source)

    @nn.nowrap
    def projection(
        self, name: str, like: str, width: int
    ) -> Callable[[Float[Array, "*rows D"]], Float[Array, "*rows H K"]]:
        """A projection of this name, with the heads, the bias, the norm and the factor of `query`, `key` or `value`.

        It can be called several times.
        """
        assert self.heads and self.initial and self.scaling
        groups = self.kv_heads or self.heads
        if self.heads % groups:
            raise UserError("config.model.kv_heads", f"a divisor of the {self.heads} heads", groups)
        heads, axis = (self.heads, "heads") if like == "query" else (groups, "kv_heads")
        features = heads, head_size(width, self.heads, self.head_size)
        drawn: dict[str, Any] = {"use_bias": self.has_bias(like), "initial": self.initial, "scaling": self.scaling}
        factor = 1.0
        if like == "query":
            drawn["scale"], factor = self.query_factors(features[1])
        linear = Linear(features, (axis, "head_size"), **drawn, name=name)
        norm = None if self.qk_norm is None or like == "value" else self.qk_norm.clone(parent=self, name=f"norm_{name}")

        def apply(source: Float[Array, "*rows D"]) -> Float[Array, "*rows H K"]:
            projected = checkpoint_name(linear(source), like)
            return scale(projected if norm is None else norm(projected, "head_size"), factor)

        return apply

    @nn.nowrap
    def combine(self, heads: Float[Array, "B L H K"], width: int) -> Float[Array, "B L D"]:
        """The output projection of all heads."""
        assert self.initial and self.residual_scale and self.scaling
        inputs, use_bias = ("heads", "head_size"), self.has_bias("out")
        scales = self.initial, self.residual_scale, self.scaling
        project = Linear((width,), ("embed",), inputs, use_bias, *scales, name="out")
        return checkpoint_name(project(heads), "attention")


class Attention(MultiHead):
    """Multi-head self-attention (Vaswani et al. 2017).

    With `context.index`, keys and values are written to the collection "cache". If the collection "attention_maps" is
    mutable, the weights [B H L S] are sown in it as `weights`.

    A call is a chain of steps: `inputs`, `projected`, `mask`, `bias`, `attend`, `outputs`. A subclass overrides those
    that differ.

    Attributes:
      scale: factor of the scores. If None, 1 / sqrt(K). With another one the kernel of the queries is drawn smaller or
        larger, so that the first scores are as large (Raffel et al. 2020 have 1).
      window: a token attends to those less than this many positions away (Beltagy et al. 2020). If None, no limit.
      context_parallel: how queries get the keys of other devices if the mesh shards the length: `AllGatherKV`,
        `RingAttention`.
      dropout: of the attention weights.
    """

    takes_prompts: ClassVar[bool] = True

    scale: float | None = config_field(None, above=0)
    window: int | None = config_field(None, at_least=1)
    context_parallel: ContextParallel = dataclasses.field(default_factory=AllGatherKV)
    dropout: float = config_field(0.0, at_least=0, below=1)

    @nn.nowrap
    def query_factors(self, size: int) -> tuple[float, float]:
        assert self.scaling
        own = 1.0 if self.scale is None else self.scale * (size / self.scaling.head_size) ** 0.5
        return 1 / own, own * self.scaling.attention()

    @nn.nowrap
    def inputs(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The inputs of the projections to queries [B L D], keys and values [B S D]."""
        return x, x, x

    @nn.nowrap
    def projected(self, x: Float[Array, "B L D"], context: LayerContext) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Queries [B L H K], keys and values [B S G K], those of earlier calls included."""
        query, key, value = (
            self.project(name, part) for name, part in zip(PROJECTIONS, self.inputs(x, context), strict=False)
        )
        query, key = (rotate(part, context.rotation) for part in (query, key))
        if context.index is not None:
            key, value = (
                update_cache(self, name, rows.swapaxes(1, 2), context.index, "kv_heads").swapaxes(1, 2)
                for name, rows in (("keys", key), ("values", value))
            )
        return query, key, value

    @nn.nowrap
    def mask(self, query: Float[Array, "B L H K"], key: Float[Array, "B S G K"], context: LayerContext) -> Mask:
        """Which keys a query sees."""
        if self.window is None:
            return context.mask
        assert context.mask.window is None
        return dataclasses.replace(context.mask, window=self.window)

    @nn.nowrap
    def bias(
        self, query: Float[Array, "B L H K"], key: Float[Array, "B S G K"], context: LayerContext
    ) -> Float[Array, "#B H L S"] | None:
        """What is added to the scores, float32. If None, nothing."""
        if context.relative is not None:
            expected = "DisentangledAttention(), which reads RelativeEmbeddings"
            raise UserError("config.model.attention", expected, type(self).__name__)
        return context.bias

    @nn.nowrap
    def attend(
        self,
        query: Float[Array, "B L H K"],
        key: Float[Array, "B S G K"],
        value: Float[Array, "B S G K"],
        mask: Mask,
        bias: Float[Array, "#B H L S"] | None,
        dropout: Callable[[jax.Array], jax.Array] | None,
        shared: Float[Array, "1 n M"] | None = None,
    ) -> Float[Array, "B L H K"]:
        """The weighted values, and an adapter's. `shared`: `context.adapter`."""
        if self.is_mutable_collection(MAPS) and not self.is_initializing():
            weights = attention_weights(query, key, mask, bias)
            self.sow(MAPS, "weights", weights, init_fn=lambda: None, reduce_fn=lambda _, new: new)
        out = self.context_parallel(query, key, value, mask, bias, dropout)
        return attend_with_adapter(self, query, out, lambda: log_normaliser(query, key, mask, bias), shared)

    @nn.nowrap
    def outputs(self, attended: Float[Array, "B L H K"], context: LayerContext) -> Float[Array, "B L H K"]:
        """The weighted values in the order of the tokens, if `inputs` has another one."""
        return attended

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """Attention under `context`."""
        query, key, value = self.projected(x, context)
        drop = nn.Dropout(self.dropout, deterministic=False) if self.dropout and context.train else None
        mask, bias = self.mask(query, key, context), self.bias(query, key, context)
        out = self.outputs(self.attend(query, key, value, mask, bias, drop, context.adapter), context)
        return self.combine(out, x.shape[-1])
