"""Bottleneck adapters after a module."""

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Float

from txjax.nn.adapters.adapter import Adapter
from txjax.nn.adapters.lora import Branch, expansion
from txjax.nn.layers.linear import Linear
from txjax.nn.layers.mlp import ACTIVATIONS
from txjax.types import config_field


@dataclasses.dataclass
class Bottleneck(Adapter):
    """y + up(activation(down(y))) on a module's output y (Houlsby et al. 2019, 2.1). `up` starts at zero.

    By default after the last projection of attention and MLP, before dropout and the residual sum, as in the paper.
    `paths=".*mlp/down"` has one in a layer (Pfeiffer et al. 2021, AdapterFusion, 3.2).

    Attributes:
      size: of the hidden layer.
      activation: a name of `nn.ACTIVATIONS`.
    """

    name: ClassVar[str] = "bottleneck"

    paths: str = ".*(attention/out|mlp/down)"
    size: int = config_field(8, at_least=1)
    activation: str = config_field("gelu", choices=tuple(ACTIVATIONS))

    def add(self, module: Any, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        down = Linear((self.size,), ("rank",), in_axes=tuple(module.axes), parent=None, kernel_init=module.kernel_init)
        branch = Branch(down, expansion(module, "rank", use_bias=True), ACTIVATIONS[self.activation], name=self.name)
        return y + branch(y, y.dtype)
