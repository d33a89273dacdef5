"""What an encoder returns, and the base of heads, which read it."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import flax.linen as nn
import jax
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import MLP
from txjax.nn.layers.norms import LayerNorm, Norm
from txjax.nn.parameters.init import KernelInit
from txjax.nn.positions.positions import Grid

T = TypeVar("T")
_Leaf = Any  # an array, or what stands for one in a tree of shapes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Encoded:
    """The output of an encoder, which heads and other models read.

    Attributes:
      features: [B L D], one vector a token.
      segments: int32 [B L], as in a batch: 0 is padding. If None, no token is padding.
      embedding: float32 [V D], the table of the input tokens, for tied heads. If None, the inputs are not tokens.
      grid: the order of an image's tokens. If None, the inputs are not patches.
      stages: of a hierarchical encoder, what each stage returns, from the first to the last (before the final norm).
      image: of an encoder of pairs, the regions of the image; all else is of the text. If None, it is no such encoder.
    """

    features: _Leaf
    segments: _Leaf | None = None
    embedding: _Leaf | None = None
    grid: Grid | None = dataclasses.field(default=None, metadata={"static": True})
    stages: tuple["Encoded", ...] = ()
    image: "Encoded | None" = None

    @property
    def prefix(self) -> int:
        """The number of tokens before an image's patches; 0 for texts, whose tokens are all alike."""
        return 0 if self.grid is None else self.grid.prefix


class Scope(nn.Module):
    """A named scope of parameters: `Scope(name="head")(function)` is function(module), whose path ends with `head`."""

    @nn.compact
    def __call__(self, function: Callable[[nn.Module], T]) -> T:
        return function(self)


@dataclasses.dataclass(frozen=True)
class HeadContext:
    """What a head gets from the module that calls it, inside a compact method of that module.

    Attributes:
      module: the module to whose scope the head's parameters are added.
      kernel_init: of new kernels.
      norm: the template of norms.
      activation: one of `nn.ACTIVATIONS`.
      dropout: of the input of a classifier.
      train: whether dropout is active.
      heads: of the attention in the model's layers. If None, they have none, or not all the same number.
      mlp: the template of the MLPs in the model's layers. If None, it has no layers.
    """

    module: nn.Module
    kernel_init: KernelInit = KernelInit()
    norm: Norm = dataclasses.field(default_factory=LayerNorm)
    activation: str = "gelu"
    dropout: float = 0.0
    train: bool = False
    heads: int | None = None
    mlp: MLP | None = None

    def linear(self, name: str, size: int, axis: str, use_bias: bool = True) -> Linear:
        """A dense layer from the width to `size` outputs, whose logical name is `axis`."""
        return Linear((size,), (axis,), use_bias=use_bias, kernel_init=self.kernel_init, name=name, parent=self.module)

    def normalise(self, name: str, x: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        """Applies a norm of its own."""
        return self.norm.clone(parent=self.module, name=name).normalise(x, self.train)

    def drop(self, x: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
        """Applies dropout."""
        return nn.Dropout(self.dropout, deterministic=not self.train, parent=self.module)(x)

    def within(self, name: str, function: Callable[["HeadContext"], T]) -> T:
        """function(context), where the context's module is a scope of that name below this one's."""
        scope = Scope(name=name, parent=self.module)
        return scope(lambda module: function(dataclasses.replace(self, module=module)))

    def sow_features(self, features: Float[Array, "B D"]) -> None:
        """Sows the `features` of the examples in the collection "intermediates"; the last ones sown count."""
        self.module.sow("intermediates", "features", features, init_fn=tuple, reduce_fn=lambda _, new: (new,))


@dataclasses.dataclass
class Head:
    """Base of heads, from what an encoder returns to a model's output.

    A head is a value without parameters: these are added to `context.module` under names that the head chooses, `head`
    for the projection to the output. So one head may serve several models, and a model's other parameters have the same
    paths under any head.
    """

    def __call__(self, encoded: Encoded, context: HeadContext) -> Any:
        """The output."""
        raise NotImplementedError


@dataclasses.dataclass
class WithEncoded(Head):
    """A head's output, and the encoder's that it reads, for an objective that compares both with another model's.

    Attributes:
      head: the head.
    """

    head: Head

    def __call__(self, encoded: Encoded, context: HeadContext) -> tuple[Any, Encoded]:
        """The pair."""
        return self.head(encoded, context), encoded


def class_count(classes: int | None) -> int:
    """The number of classes of a head. Raises UserError if it is None still, as the training data have none either."""
    if classes is None:
        raise UserError("config.model.head.classes", "a number, since config.data has no number of classes", None)
    return classes
