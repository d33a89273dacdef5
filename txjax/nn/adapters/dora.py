"""Low-rank adaptation of the directions of a kernel's columns, and their magnitudes apart."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.core import meta
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax.axes import Axes
from txjax.nn.adapters.lora import Branch, LoRA, product
from txjax.nn.layers.linear import align, parameter
from txjax.nn.parameters.quantized_kernels import dequantized
from txjax.parametrization import Scaling, role


class Directed(Branch):
    """A low-rank branch, and the ratio of the magnitudes that it leaves. Parameters `down`, `up`, `magnitude`.

    Attributes:
      factor: of the branch's output.
      update: of the branch's kernels, relative to the adapted kernel.
      axes: logical names of the outputs.
    """

    factor: Any = 1.0
    update: Any = 1.0
    axes: tuple[str, ...] = ()

    @nn.compact
    def directed(
        self, x: Float[Array, "..."], output: Float[Array, "..."], kernel: jax.Array, dtype: DTypeLike
    ) -> Float[Array, "..."]:
        """The product with the adapted kernel.

        Args:
          output: with the kernel.
        """
        branch = self.factor * self(x, dtype)
        down, up = (meta.unbox(part.variables["params"]["kernel"]) for part in (self.down, self.up))
        features = kernel.shape[kernel.ndim - len(self.axes) :]
        magnitude = parameter(self, "magnitude", nn.initializers.zeros, features, self.axes)
        ratio = jax.lax.stop_gradient(shrunk(kernel, self.update * product(down, up, kernel), features))
        return align((1 + magnitude) * ratio, output) * (output + branch)


def shrunk(kernel: jax.Array, update: jax.Array, features: tuple[int, ...]) -> Float[Array, "*features"]:
    """|W| / |W + update|, norms over the inputs; 1 exactly where there is no update."""
    inputs = tuple(range(kernel.ndim - len(features)))
    before = jnp.square(kernel).sum(inputs)
    after = before + (update * (2 * kernel + update)).sum(inputs)
    some = after > 0
    return jnp.where(some, jnp.sqrt(before / jnp.where(some, after, 1.0)), 1.0)


@dataclasses.dataclass
class DoRA(LoRA):
    """(1 + magnitude) |W| / |V| * V with V = W + LoRA's update, by columns (Liu et al. 2024, equation 5).

    |.| is of each output, over all inputs. No gradient flows through |V| (section 4.3). The paper's m is
    (1 + magnitude) |W|; `magnitude` [*features] starts at zero, so that it fits the kernel that `init_from` loads.
    """

    name: ClassVar[str] = "dora"

    def add(self, module: Any, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        params = dequantized(meta.unbox(module.variables["params"]))
        bias = align(params["bias"], y) if "bias" in params else 0
        in_axes = getattr(module, "in_axes", None) or (module.in_axis,)
        parts = {"down": (in_axes, ("rank",)), "up": (("rank",), tuple(module.axes))}
        update = self.factor / module.kernel_init.scaling.multiplier(role(in_axes, tuple(module.axes)))
        for names in parts.values():
            update *= module.kernel_init.scaling.multiplier(role(*names))
        fields = dict(factor=self.factor, update=update, axes=tuple(module.axes))
        branch = Directed(*self.halves(module), None, self.dropout, **fields, name=self.name)
        return branch.directed(x, y - bias, params["kernel"], y.dtype) + bias

    def merged(self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling) -> Mapping[str, Any]:
        rest, kernel, update = self.taken(params, axes, scaling)
        magnitude = rest.pop(f"{self.name}/magnitude")
        dims = axes[f"{self.name}/magnitude"].uncopied_dims
        lead = magnitude.ndim - len(dims)
        ratio = functools.partial(shrunk, features=magnitude.shape[-len(dims) :])
        for _ in range(lead):
            ratio = jax.vmap(ratio)
        scaled = (1 + magnitude) * ratio(kernel, update)
        inputs = tuple(range(lead, kernel.ndim - len(dims)))
        return {**rest, "kernel": jnp.expand_dims(scaled, inputs) * (kernel + update)}
