"""Learned factors of activations."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.axes import Axes, Names
from txjax.nn.adapters.adapter import FIELD, Adapter
from txjax.nn.layers.linear import align, parameter
from txjax.nn.parameters.active_adapter import path_of
from txjax.parametrization import Scaling
from txjax.patterns import matches_path
from txjax.types import config_field


class Factors(nn.Module):
    """x * (1 + scale) over the last dimensions of x. A parameter, which starts at zero.

    Attributes:
      axes: logical names of these dimensions.
      of: the parameter's name, "inputs" or "outputs".
    """

    axes: Names
    of: str

    @nn.compact
    def __call__(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        features = x.shape[x.ndim - len(self.axes) :]
        return x * (1 + align(parameter(self, self.of, nn.initializers.zeros, features, self.axes), x))


@dataclasses.dataclass
class IA3(Adapter):
    """y * (1 + scale) for the outputs y of some modules, and the same for the inputs of others (Liu et al. 2022, 3.3).

    By default keys, values, and the hidden layers of MLPs behind their activation, as in the paper, whose factors start
    at one. `merge` multiplies kernels and biases.

    Attributes:
      inputs: a regular expression for the paths of modules whose inputs, and not outputs, have factors.
    """

    name: ClassVar[str] = "ia3"

    paths: str = ".*attention/(key|value)"
    inputs: str = config_field(".*mlp/down")

    def matches(self, path: str) -> bool:
        return super().matches(path) or self._of_input(path)

    def enter(self, module: Any, x: Float[Array, "..."]) -> Float[Array, "..."]:
        if not self._of_input(path_of(module)):
            return x
        return Factors(getattr(module, "in_axes", None) or (module.in_axis,), "inputs", name=self.name)(x)

    def add(self, module: Any, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        if self._of_input(path_of(module)):
            return y
        return Factors(tuple(module.axes), "outputs", name=self.name)(y)

    def merged(self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling) -> Mapping[str, Any]:
        new = dict(params)
        kernel = axes["kernel"]
        of_input = f"{self.name}/inputs" in new
        path = f"{self.name}/{'inputs' if of_input else 'outputs'}"
        factors = 1 + new.pop(path)
        names = axes[path]
        lead = len(names) - len(names.uncopied_dims)  # copies: layers
        before = len(kernel.inside) - (
            len(names.uncopied_dims) if of_input else 0
        )  # of an input, the taps of a convolution
        after = len(kernel.outside) if of_input else 0
        spread = jnp.expand_dims(factors, (*range(lead, lead + before), *range(-after, 0)))
        new["kernel"] = params["kernel"] * spread
        if not of_input and "bias" in params:
            new["bias"] = params["bias"] * factors
        return new

    def _of_input(self, path: str) -> bool:
        return matches_path(self.inputs, path, f"{FIELD}.inputs")
