"""One layer of a Transformer: a mixer and an MLP as branches of a residual stream."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.attention.cross_attention import CrossAttention
from txjax.nn.attention.layer_context import LayerContext
from txjax.nn.attention.mixer import Mixer
from txjax.nn.layers.drop_path import drop_path
from txjax.nn.layers.linear import align, parameter, scale
from txjax.nn.layers.mlp import MLP
from txjax.nn.layers.norms import Norm
from txjax.parametrization import Scaling
from txjax.sharding import constrain
from txjax.types import config_field

Stream = Float[Array, "B L D"]
Layer = Callable[..., Any]  # (x [B L D], LayerContext) -> [B L D]
Normalise = Callable[[jax.Array], jax.Array]


class Block(nn.Module):
    """The parts of a layer, set by the model. A subclass says in `enter` and `leave` where a branch leaves the stream.

    Attributes:
      mixer: self-attention, or another mixer. It and its branch have its `branch_name`, `attention` or `mixer`.
      cross: attention to `context.memory`. If None, there is no such branch.
      mlp: the feed-forward network.
      norm: copied for every branch, as `norm_attention` (or `norm_mixer`), `norm_cross`, `norm_mlp`.
      dropout: of every branch's output.
      scaling: has the factor of every branch's output; set by the model.
      drop_path: stochastic depth (Huang et al. 2016): the fraction of examples for which the last layer drops a
        branch. It falls linearly to 0 in the first layer; kept branches are scaled up so that the mean is unchanged.
      layer_scale: the first value of learned factors of each branch's channels (Touvron et al. 2021, CaiT),
        `scale_attention` (or `scale_mixer`), `scale_cross`, `scale_mlp` [D]. If None, there are none.
      final_norm: whether a stack of these blocks is followed by a norm.
      takes_prompts: whether an adapter's tokens may be among those of the stream.
      branches: the number of branches that write into the residual stream.
    """

    mixer: Mixer | None = None
    cross: CrossAttention | None = None
    mlp: MLP | None = None
    norm: Norm | None = None
    dropout: float | None = None
    scaling: Scaling | None = None
    drop_path: float = config_field(0.0, at_least=0, below=1)
    layer_scale: float | None = None
    takes_prompts: ClassVar[bool] = True
    final_norm: ClassVar[bool]

    @property
    def branches(self) -> int:
        return 2 if self.cross is None else 3

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        """What the branches compute, by name and in their order, each with the context that it is given."""
        assert self.mixer and self.mlp
        cross = {} if self.cross is None else {"cross": (self.cross, context)}
        return {self.mixer.branch_name: (self.mixer, context), **cross, "mlp": (self.mlp, context)}

    @nn.nowrap
    def enter(self, x: Stream, norm: Normalise, context: LayerContext) -> Stream:
        """The input of a branch's layer, from the residual stream."""
        raise NotImplementedError

    @nn.nowrap
    def leave(self, name: str, x: Stream, y: Stream, norm: Normalise) -> Stream:
        """The residual stream after the branch of this name, whose layer's output is y."""
        raise NotImplementedError

    @nn.compact
    def __call__(self, x: Stream, context: LayerContext, depth_fraction: float | Float[Array, ""] = 1.0) -> Stream:
        """The residual stream after this layer, same shape and dtype. `depth_fraction`: 0 first, 1 last layer."""
        assert self.norm and self.scaling and self.dropout is not None
        factor = self.scaling.branch()
        drop = nn.Dropout(self.dropout, deterministic=not context.train)
        for name, (layer, inputs) in self.layers(context).items():
            norm = self.norm.clone(parent=self, name=f"norm_{name}")
            normalise = functools.partial(norm.normalise, train=context.train)
            y = drop(layer(self.enter(x, normalise, context), inputs))
            if self.layer_scale is not None:
                first = nn.initializers.constant(self.layer_scale)
                y = y * align(parameter(self, f"scale_{name}", first, y.shape[-1:], ("embed",)), y)
            if self.drop_path:
                y = drop_path(self, y, self.drop_path, depth_fraction, context.train)
            y = scale(y, factor)
            x = self.leave(name, x, y, normalise)
        return constrain(x, "batch", "length", "width")


class OneBranch(Block):
    """Base of blocks of one branch, without cross-attention."""

    @property
    def branches(self) -> int:
        return 1

    @property
    def branch_name(self) -> str:
        """The name of the branch, which is the mixer's."""
        assert self.mixer
        return self.mixer.branch_name

    @nn.nowrap
    def layers(self, context: LayerContext) -> dict[str, tuple[Layer, LayerContext]]:
        if self.cross is not None:
            raise UserError("config.model.block", "PreNorm() or PostNorm() with cross-attention", type(self).__name__)
        return {self.branch_name: super().layers(context)[self.branch_name]}
