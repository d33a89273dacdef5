"""Alignment models: how well the inputs around a source's position match a decoder's state, as attention weights."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.errors import UserError
from txjax.nn.kernels.reference_attention import FAR
from txjax.nn.layers.linear import Linear, scale
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Role
from txjax.types import config_field


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Annotations:
    """An encoded source, as attention reads it.

    Attributes:
      keys: [B S A], of the values; computed once.
      values: [B S C], one vector a token.
      token_mask: bool [B S], which tokens are not padding. If None, all.
    """

    keys: Float[Array, "B S A"]
    values: Float[Array, "B S C"]
    token_mask: Bool[Array, "B S"] | None = None


class Alignment(nn.Module):
    """Base of attention with one head, whose queries are a decoder's states D.

    Attributes:
      width, use_bias, kernel_init: set by the model; the width is that of the states.
    """

    width: int | None = None
    use_bias: bool | None = None
    kernel_init: KernelInit | None = None

    @nn.nowrap
    def keys(self, values: Float[Array, "B S C"]) -> Float[Array, "B S A"]:
        """What `scores` reads of the values. Its parameters are of the module that is called, under `keys`."""
        raise NotImplementedError

    @nn.nowrap
    def scores(self, query: Float[Array, "B L D"], keys: Float[Array, "B S A"]) -> Float[Array, "B L S"]:
        """How well each query matches each key, float32. Called inside a compact method."""
        raise NotImplementedError

    @nn.compact
    def __call__(
        self, query: Float[Array, "B L D"], source: Annotations
    ) -> tuple[Float[Array, "B L C"], Float[Array, "B L S"]]:
        """The weighted means of the values, in their dtype, and the weights, float32."""
        scores = self.scores(query, source.keys)
        if source.token_mask is not None:
            scores = jnp.where(source.token_mask[:, None], scores, FAR)
        weights = jax.nn.softmax(scores, axis=-1)
        values = source.values
        context = jnp.einsum("bls,bsc->blc", weights.astype(values.dtype), values, preferred_element_type=jnp.float32)
        return context.astype(values.dtype), weights

    @nn.nowrap
    def linear(self, name: str, size: int, axis: str, in_axis: str = "width", use_bias: bool = False) -> Linear:
        """A dense layer with this model's initialisation."""
        assert self.kernel_init
        return Linear((size,), (axis,), (in_axis,), use_bias, kernel_init=self.kernel_init, name=name)


class Additive(Alignment):
    """v . tanh(W s + U h), of a state s and a value h (Bahdanau et al. 2015, A.1.2).

    Parameters: `query` [D A], `scores` [A 1]; `keys` [C A].

    Attributes:
      size: A. If None, the width.
    """

    size: int | None = config_field(None, at_least=1)

    @nn.nowrap
    def keys(self, values: Float[Array, "B S C"]) -> Float[Array, "B S A"]:
        return self.linear("keys", self._size(), "width", "embed", bool(self.use_bias))(values)

    @nn.nowrap
    def scores(self, query: Float[Array, "B L D"], keys: Float[Array, "B S A"]) -> Float[Array, "B L S"]:
        query = self.linear("query", self._size(), "width")(query)
        energy = jnp.tanh(query[:, :, None] + keys[:, None])
        return self.linear("scores", 1, "scores")(energy, jnp.float32)[..., 0]

    @nn.nowrap
    def _size(self) -> int:
        assert self.width
        return self.size or self.width


class Dot(Alignment):
    """s . h, of a state s and a value h of one size (Luong et al. 2015, equation 8). No parameters."""

    @nn.nowrap
    def keys(self, values: Float[Array, "B S C"]) -> Float[Array, "B S A"]:
        if values.shape[-1] != self.width:
            hint = "set config.model.encoder_width to half of the width, or take General() or Additive()"
            expected = f"an alignment of states of {self.width} with an encoder's output of {values.shape[-1]}"
            raise UserError("config.model.alignment", expected, "Dot", hint=hint)
        return values

    @nn.nowrap
    def scores(self, query: Float[Array, "B L D"], keys: Float[Array, "B S A"]) -> Float[Array, "B L S"]:
        assert self.kernel_init
        scores = jnp.einsum("bld,bsd->bls", query, keys, preferred_element_type=jnp.float32)
        return scale(scores, self.kernel_init.scaling.multiplier(Role.OUTPUT))


class General(Dot):
    """s . W h, of a state s and a value h (Luong et al. 2015, equation 8). Parameter `keys` [C D]."""

    @nn.nowrap
    def keys(self, values: Float[Array, "B S C"]) -> Float[Array, "B S A"]:
        assert self.width
        return self.linear("keys", self.width, "width", "embed")(values)
