"""Low-rank adaptation of kernels."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Float

from txjax.axes import Axes
from txjax.nn.adapters.adapter import Adapter
from txjax.nn.linear import Linear
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

    def add(self, module: Any, x: Float[Array, "..."], y: Float[Array, "..."]) -> Float[Array, "..."]:
        down = module.clone(parent=None, name=None, features=(self.rank,), axes=("rank",), use_bias=False, scale=1.0)
        up = expansion(module, "rank")
        return y + self.alpha / self.rank * Branch(down, up, None, self.dropout, name=self.name)(x, y.dtype)

    def merged(self, params: Mapping[str, Any], axes: Mapping[str, Axes], scaling: Scaling) -> Mapping[str, Any]:
        paths = {"kernel": "kernel"} | {part: f"{self.name}/{part}/kernel" for part in ("down", "up")}
        kernel, down, up = (params[path] for path in paths.values())
        factor = {part: scaling.multiplier(role_of(axes[path])) for part, path in paths.items()}
        lead = kernel.shape[: down.ndim + up.ndim - 2 - kernel.ndim]  # copies: layers
        left = down.reshape(*lead, -1, self.rank)
        update = jnp.einsum("...ir,...ro->...io", left, up.reshape(*lead, self.rank, -1)).reshape(kernel.shape)
        new = kernel + self.alpha / self.rank * factor["down"] * factor["up"] / factor["kernel"] * update
        rest = {path: x for path, x in params.items() if path not in paths.values()}
        return {**rest, "kernel": new}


def expansion(module: Any, axis: str) -> Linear:
    """A `Linear` from one small axis to the outputs of `module`, which starts at zero."""
    features, axes = tuple(module.features), tuple(module.axes)
    own: dict[str, Any] = {"initial": module.initial, "scaling": module.scaling}
    return Linear(features, axes, in_axes=(axis,), use_bias=False, scale=0.0, parent=None, **own)
