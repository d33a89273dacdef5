"""Trained keys and values, which all queries of an attention see."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.axes import Axes
from txjax.errors import UserError
from txjax.nn.adapters.adapter import FIELD, Adapter
from txjax.nn.layers.linear import Linear, align, parameter
from txjax.nn.parameters.active_adapter import path_of
from txjax.nn.parameters.init import KernelInit
from txjax.parametrization import Scaling, role_of
from txjax.types import config_field


class PrefixRows(nn.Module):
    """Keys and values [n G K] of a prefix: parameters `key` and `value`.

    Attributes:
      shape: n, G, K.
      std: standard deviation at initialisation.
    """

    shape: tuple[int, int, int]
    std: float

    @nn.compact
    def __call__(self, shared: Float[Array, "1 n M"] | None) -> tuple[jax.Array, jax.Array]:
        draw = nn.initializers.normal(self.std)
        axes = ("prefix", "kv_heads", "head_size")
        key, value = (parameter(self, name, draw, self.shape, axes, inputs=1) for name in ("key", "value"))
        return key, value


class ProjectedRows(nn.Module):
    """Keys and values of a prefix by a `Linear` from what all layers share. Parameters of `key` and `value`.

    Attributes:
      features: G, K.
      kernel_init: of the `Linear`s.
    """

    features: tuple[int, int]
    kernel_init: KernelInit

    @nn.compact
    def __call__(self, shared: Float[Array, "1 n M"]) -> tuple[jax.Array, jax.Array]:
        axes = ("kv_heads", "head_size")
        inputs = ("prefix_hidden",)
        key, value = (
            Linear(self.features, axes, inputs, kernel_init=self.kernel_init, name=name)(shared[0])
            for name in ("key", "value")
        )
        return key, value


class PrefixSource(nn.Module):
    """tanh(hidden(embedding)), [1 n hidden]. Parameters `embedding` [n D] and those of `hidden`.

    Attributes:
      length, width, size: n, D and the hidden layer's.
    """

    length: int
    width: int
    size: int

    @nn.compact
    def __call__(self) -> Float[Array, "1 n M"]:
        shape = (self.length, self.width)
        axes = ("prefix", "prefix_width")
        rows = parameter(self, "embedding", nn.initializers.normal(1.0), shape, axes, inputs=1)
        return jnp.tanh(Linear((self.size,), ("prefix_hidden",), ("prefix_width",), name="hidden")(rows))[None]


@dataclasses.dataclass
class Prefix(Adapter):
    """Attention to `length` trained keys and values before those of the tokens (Li and Liang 2021, 4.1).

    They have no positions, and every query sees them, whatever its mask. For each query the output is

        (1 - s) attention + s softmax(query . keys / sqrt(K)) . values

    where s is the share of the prefix in the sum of the exponentials of all scores (He et al. 2022, 3.1), so that
    attention itself may be computed by any kernel. Parameters `key` and `value` [n G K] in each layer.

    Attributes:
      length: n.
      std: standard deviation of keys and values at initialisation.
      first_position: of the text of a causal model. (In the library peft a text begins at position `length`.)
    """

    name: ClassVar[str] = "prefix"
    of: ClassVar[str] = "attention"

    paths: str = ".*block/.*attention"
    length: int = config_field(10, at_least=1)
    std: float = config_field(0.02, at_least=0)
    first_position: int = config_field(0, at_least=0)  # type: ignore[misc]

    def rows(self, module: Any, features: tuple[int, int], shared: Float[Array, "1 n M"] | None) -> nn.Module:
        """The module that gives keys and values with these heads and their size."""
        return PrefixRows((self.length, *features), self.std, name=self.name)

    def attend(
        self,
        module: Any,
        query: Float[Array, "B L H K"],
        y: Float[Array, "B L H K"],
        normaliser: Float[Array, "B H L"],
        shared: Float[Array, "1 n M"] | None,
    ) -> Float[Array, "B L H K"]:
        heads, size = query.shape[2:]
        groups = module.kv_heads or heads
        key, value = (x.astype(query.dtype) for x in self.rows(module, (groups, size), shared)(shared))
        batch, length = query.shape[:2]
        grouped = query.reshape(batch, length, groups, heads // groups, size)
        scores = jnp.einsum("blgqk,ngk->bgqln", grouped, key, preferred_element_type=jnp.float32) * size**-0.5
        values = jnp.einsum("bgqln,ngk->blgqk", jax.nn.softmax(scores).astype(value.dtype), value)
        log_sum = jax.nn.logsumexp(scores, -1).reshape(batch, heads, length)
        part = jax.nn.sigmoid(log_sum - normaliser).swapaxes(1, 2)[..., None]
        return ((1 - part) * y + part * values.reshape(y.shape)).astype(y.dtype)


@dataclasses.dataclass
class MLPPrefix(Prefix):
    """A `Prefix` whose keys and values are an MLP's output while it is trained (Li and Liang 2021, 4.3).

    `embedding` [n D] and the hidden layer, tanh(hidden(embedding)), are a stack's, `layers/prefix`; `key` and `value`
    are linear functions of it in each layer. `txjax merge` leaves the `Prefix` that they give.

    Attributes:
      width: D of the embedding. If None, the hidden layer's size.
      hidden: size of the hidden layer.
    """

    width: int | None = config_field(None, at_least=1)
    hidden: int = config_field(512, at_least=1)

    def share(self, module: nn.Module) -> Float[Array, "1 n M"]:
        return PrefixSource(self.length, self.width or self.hidden, self.hidden, name=self.name)()

    def merge(
        self, params: dict[str, Any], axes: Mapping[str, Axes], scaling: Callable[[str], Scaling | None]
    ) -> tuple[Adapter, dict[str, Any]]:
        """The `Prefix` of the keys and values that the MLP gives, and the parameters with it."""
        flat = dict(params)
        source = f"{self.name}/embedding"
        folder = f"/{self.name}/"
        for stack in [path.removesuffix(source) for path in params if path.endswith(source)]:
            parts = (source, f"{self.name}/hidden/kernel", f"{self.name}/hidden/bias")
            rows, kernel, bias = (flat.pop(stack + part) for part in parts)
            hidden = jnp.tanh(rows @ kernel + align(bias, rows))
            kernels = [path for path in flat if folder in path.removeprefix(stack) and path.endswith("/kernel")]
            for path in filter(lambda path: path.startswith(stack), kernels):
                name = path.removesuffix("/kernel")
                factor = (scaling(path) or Scaling()).multiplier(role_of(axes[path]))
                projected = factor * jnp.einsum("nm,...mgk->...ngk", hidden, flat.pop(path))
                flat[name] = projected + jnp.expand_dims(flat.pop(f"{name}/bias"), -3)
        return Prefix(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Prefix)}), flat

    def rows(self, module: Any, features: tuple[int, int], shared: Float[Array, "1 n M"] | None) -> nn.Module:
        """As in `Prefix`. Raises UserError for attention that is in no stack of layers."""
        if shared is None:
            raise UserError(f"{FIELD}.paths", "attention in stacks of layers", path_of(module))
        return ProjectedRows(features, module.kernel_init, name=self.name)
