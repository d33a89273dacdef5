"""One layer of a Transformer: attention and MLP as branches of a residual stream."""

from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.attention.attention import CrossAttention, LayerContext, Mixer
from txjax.nn.linear import scale
from txjax.nn.mlp import MLP
from txjax.nn.norms import Norm
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import UserError, config_field


def set_model_fields(template: Any, where: str, **fields: Any) -> Any:
    """A copy of a module, without a parent, with the fields that the model sets.

    Raises:
      UserError: the config sets one of them at `where` too.
    """
    for name in fields:
        if (value := getattr(template, name)) is not None:
            raise UserError(f"{where}.{name}", "nothing: the model sets it from its own fields", value)
    return template.clone(parent=None, name=None, **fields)


class Block(nn.Module):
    """The parts of a layer, set by the model. A subclass combines them in `branch`.

    Attributes:
      attention: self-attention, or another mixer.
      cross: attention to `context.memory`. If None, there is no such branch.
      mlp: the feed-forward network.
      norm: copied for every branch, as `norm_attention`, `norm_cross`, `norm_mlp`.
      dropout: of every branch's output.
      scaling: has the factor of every branch's output; set by the model.
      drop_path: stochastic depth (Huang et al. 2016): the fraction of examples for which the last layer drops a
        branch. It falls linearly to 0 in the first layer; kept branches are scaled up so that the mean is unchanged.
      final_norm: whether a stack of these blocks is followed by a norm.
      branches: the number of branches that write into the residual stream.
    """

    attention: Mixer | None = None
    cross: CrossAttention | None = None
    mlp: MLP | None = None
    norm: Norm | None = None
    dropout: float | None = None
    scaling: Scaling | None = None
    drop_path: float = config_field(0.0, at_least=0, below=1)
    final_norm: ClassVar[bool]

    @property
    def branches(self) -> int:
        return 2 if self.cross is None else 3

    def branch(self, x: Float[Array, "B L D"], norm: nn.Module, layer: Any) -> Float[Array, "B L D"]:
        """The residual stream after a branch of `layer`."""
        raise NotImplementedError

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L D"], context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0
    ) -> Float[Array, "B L D"]:
        """The residual stream after this layer, same shape and dtype. `depth_fraction`: 0 first, 1 last layer."""
        assert self.attention and self.mlp and self.norm and self.scaling and self.dropout is not None
        norm, factor = self.norm, self.scaling.branch()
        drop = nn.Dropout(self.dropout, deterministic=not context.train)

        def drop_branch(y: jax.Array) -> jax.Array:
            if not (self.drop_path and context.train):
                return y
            stay = 1 - self.drop_path * jnp.asarray(depth_fraction, jnp.float32)
            stays = jax.random.bernoulli(self.make_rng("dropout"), stay, (y.shape[0], 1, 1))
            return y * (stays / stay).astype(y.dtype)

        def add(x: jax.Array, name: str, layer: Any) -> jax.Array:
            def scaled(y: jax.Array) -> jax.Array:
                return scale(drop_branch(drop(layer(y))), factor)

            return self.branch(x, norm.clone(parent=self, name=f"norm_{name}"), scaled)

        x = add(x, "attention", lambda y: self.attention(y, context))
        if self.cross is not None:
            x = add(x, "cross", lambda y: self.cross(y, context))
        x = add(x, "mlp", lambda y: self.mlp(y, context.train, context.real))
        return constrain(x, "batch", "length", "width")


class PreNorm(Block):
    """x + layer(norm(x)) (Radford et al. 2019; Xiong et al. 2020)."""

    final_norm: ClassVar[bool] = True

    def branch(self, x: Float[Array, "B L D"], norm: nn.Module, layer: Any) -> Float[Array, "B L D"]:
        return x + layer(norm(x))


class PostNorm(Block):
    """norm(x + layer(x)) (Vaswani et al. 2017)."""

    final_norm: ClassVar[bool] = False

    def branch(self, x: Float[Array, "B L D"], norm: nn.Module, layer: Any) -> Float[Array, "B L D"]:
        return norm(x + layer(x))
