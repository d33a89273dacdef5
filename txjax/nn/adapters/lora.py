"""Low-rank adaptation of kernels: LoRA and rsLoRA."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax.axes import Axes
from txjax.nn.adapters.adapter import Adapter
from txjax.nn.layers.linear import Linear
from txjax.parametrization import Scaling, role_of
from txjax.types import config_field


class Branch(nn.Module):
    """up(function(down(x))). Parameters `down` and `up`.

    Attributes:
      dropout: of x, in training, where the call has a key for it.
    """

    down: nn.Module
    up: nn.Module
    activation: Any = None
    dropout: float = 0.0

    @nn.compact
    def __call__(self, x: Float[Array, "..."], dtype: DTypeLike) -> Float[Array, "..."]:
        """The branch's output in `dtype`."""
        x = nn.Dropout(self.dropout, deterministic=not self.has_rng("dropout"))(x)
        low = self.down(x)
        return self.up(low if self.activation is None else self.activation(low), dtype)


@dataclasses.dataclass
class LoRA(Adapter):
    """y + alpha / rank * up(down(x)) (Hu et al. 2021, 4.1). `up` starts at zero, so the adapted model is the model.

    `down` is the adapted module with `rank` outputs and no bias, drawn as it is; `up` [rank features]. `merge` adds the
    update to the kernel.

    Attributes:
      rank: r, inputs of `up`.
      alpha: the factor, over the rank.
      dropout: of the branch's input.
    """

    name: ClassVar[str] = "lora"

    paths: str = ".*attention/(query|value)"
    rank: int = config_field(8, at_least=1)
    alpha: float = config_field(16.0, above=0, traced=True)
    dropout: float = config_field(0.0, at_least=0, below=1)

    @property
    def factor(self) -> float:
        """The factor of the branch's output."""
        return self.alpha / self.rank

    def add(self, module: Any, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        return y + self.factor * Branch(*self.halves(module), None, self.dropout, name=self.name)(x, y.dtype)

    def halves(self, module: Any) -> tuple[nn.Module, nn.Module]:
        """`down` and `up` for an adapted module."""
        down = module.clone(parent=None, name=None, features=(self.rank,), axes=("rank",), use_bias=False, scale=1.0)
        return down, expansion(module, "rank")

    def merged(self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling) -> Mapping[str, Any]:
        rest, kernel, update = self.taken(params, axes, scaling)
        return {**rest, "kernel": kernel + update}

    def taken(
        self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling
    ) -> tuple[dict[str, Any], Any, Any]:
        """The parameters without the kernel, `down` and `up`; the kernel; and the update that the others make of it."""
        paths = {"kernel": "kernel"} | {part: f"{self.name}/{part}/kernel" for part in ("down", "up")}
        kernel, down, up = (params[path] for path in paths.values())
        factor = {part: scaling.multiplier(role_of(axes[path])) for part, path in paths.items()}
        rest = {path: x for path, x in params.items() if path not in paths.values()}
        return rest, kernel, self.factor * factor["down"] * factor["up"] / factor["kernel"] * product(down, up, kernel)


@dataclasses.dataclass
class RsLoRA(LoRA):
    """`LoRA` with the factor alpha / sqrt(rank), which keeps its learning rate over ranks (Kalajdzievski 2023, 3)."""

    @property
    def factor(self) -> float:
        return self.alpha / self.rank**0.5


def product(down: jax.Array, up: jax.Array, kernel: jax.Array) -> jax.Array:
    """down . up in the shape of the kernel; all of them stacked over layers, or none."""
    rank = down.shape[-1]
    lead = kernel.shape[: down.ndim + up.ndim - 2 - kernel.ndim]  # copies: layers
    left = down.reshape(*lead, -1, rank)
    right = up.reshape(*lead, rank, -1)
    return jnp.einsum("...ir,...ro->...io", left, right).reshape(kernel.shape)


def expansion(module: Any, axis: str, use_bias: bool = False) -> Linear:
    """A `Linear` from one small axis to the outputs of `module`, which starts at zero."""
    features = tuple(module.features)
    axes = tuple(module.axes)
    return Linear(
        features, axes, in_axes=(axis,), use_bias=use_bias, scale=0.0, parent=None, kernel_init=module.kernel_init
    )
