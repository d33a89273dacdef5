"""One layer of a Transformer: attention and MLP as branches of a residual stream."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.nn.attention.attention import LayerContext, Mixer
from txjax.nn.attention.cross_attention import CrossAttention
from txjax.nn.layers.drop_path import drop_path
from txjax.nn.layers.linear import align, parameter, scale
from txjax.nn.layers.mlp import MLP
from txjax.nn.layers.norms import Norm
from txjax.nn.parameters.adapter_hooks import replace_tokens
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import UserError, config_field

Stream = Float[Array, "B L D"]
Layer = Callable[[jax.Array], jax.Array]


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
      layer_scale: the first value of learned factors of each branch's channels (Touvron et al. 2021, CaiT),
        `scale_attention`, `scale_cross`, `scale_mlp` [D]. If None, there are none.
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
    layer_scale: float | None = None
    final_norm: ClassVar[bool]

    @property
    def branches(self) -> int:
        return 2 if self.cross is None else 3

    def branch(
        self, x: Float[Array, "B L D"], norm: Layer, layer: Layer, context: LayerContext
    ) -> Float[Array, "B L D"]:
        """The residual stream after a branch of `layer`."""
        raise NotImplementedError

    @nn.nowrap
    def branch_of(self, name: str) -> Callable[..., jax.Array]:
        """`branch`, or another function of its arguments for the layer of this name."""
        return self.branch

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, Layer]:
        """What the branches compute, by name and in their order."""
        assert self.attention and self.mlp
        attention, cross, mlp = self.attention, self.cross, self.mlp
        found: dict[str, Layer] = {"attention": lambda y: attention(y, context)}
        if cross is not None:
            found["cross"] = lambda y: cross(y, context)
        return found | {"mlp": lambda y: mlp(y, context.train, context.real)}

    @nn.compact
    def __call__(self, x: Stream, context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0) -> Stream:
        """The residual stream after this layer, same shape and dtype. `depth_fraction`: 0 first, 1 last layer."""
        assert self.norm and self.scaling and self.dropout is not None
        x = replace_tokens(self, x) if context.prompt else x
        factor, drop = self.scaling.branch(), nn.Dropout(self.dropout, deterministic=not context.train)

        for name, layer in self.layers(context).items():
            norm = self.norm.clone(parent=self, name=f"norm_{name}")

            def scaled(y: jax.Array, name: str = name, layer: Layer = layer) -> jax.Array:
                y = drop(layer(y))
                if self.layer_scale is not None:
                    first = nn.initializers.constant(self.layer_scale)
                    y = y * align(parameter(self, f"scale_{name}", first, y.shape[-1:], ("embed",)), y)
                return scale(drop_path(self, y, self.drop_path, depth_fraction, context.train), factor)

            x = self.branch_of(name)(x, functools.partial(norm.normalise, train=context.train), scaled, context)
        return constrain(x, "batch", "length", "width")


class PreNorm(Block):
    """x + layer(norm(x)) (Radford et al. 2019; Xiong et al. 2020)."""

    final_norm: ClassVar[bool] = True

    def branch(
        self, x: Float[Array, "B L D"], norm: Layer, layer: Layer, context: LayerContext
    ) -> Float[Array, "B L D"]:
        return x + layer(norm(x))


class PostNorm(Block):
    """norm(x + layer(x)) (Vaswani et al. 2017)."""

    final_norm: ClassVar[bool] = False

    def branch(
        self, x: Float[Array, "B L D"], norm: Layer, layer: Layer, context: LayerContext
    ) -> Float[Array, "B L D"]:
        return norm(x + layer(x))


class PreNormWithoutFinal(PreNorm):
    """`PreNorm` in a stack that no norm follows, as in the image encoder of SAM (Kirillov et al. 2023)."""

    final_norm: ClassVar[bool] = False


class PostNormAttention(PostNorm):
    """norm(x + mixer(x)), without an MLP."""

    @property
    def branches(self) -> int:
        return 1

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, Layer]:
        return {"attention": super().layers(context)["attention"]}


class SingleBranch(Block):
    """x + mlp(norm(mixer(x))), the block of ConvNeXt (Liu et al. 2022): the mixer has no branch of its own."""

    final_norm: ClassVar[bool] = False

    @property
    def branches(self) -> int:
        return 1

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, Layer]:
        return {"mlp": super().layers(context)["mlp"]}

    def branch(
        self, x: Float[Array, "B L D"], norm: Layer, layer: Layer, context: LayerContext
    ) -> Float[Array, "B L D"]:
        assert self.attention is not None
        if self.cross is not None:
            raise UserError("config.model.block", "PreNorm() or PostNorm() with cross-attention", type(self).__name__)
        return x + layer(norm(self.attention(x, context)))


class PreActivation(PreNorm):
    """x + mixer(norm(x)), without an MLP: the residual unit of He et al. 2016, Identity Mappings in Deep Networks."""

    @property
    def branches(self) -> int:
        return 1

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, Layer]:
        if self.cross is not None:
            raise UserError("config.model.block", "PreNorm() or PostNorm() with cross-attention", type(self).__name__)
        return {"attention": super().layers(context)["attention"]}


class PostActivation(PreActivation):
    """relu(x + mixer(x)): the residual unit of He et al. 2016, Deep Residual Learning. Norms are the mixer's."""

    final_norm: ClassVar[bool] = False

    def branch(
        self, x: Float[Array, "B L D"], norm: Layer, layer: Layer, context: LayerContext
    ) -> Float[Array, "B L D"]:
        return nn.relu(x + layer(x))
