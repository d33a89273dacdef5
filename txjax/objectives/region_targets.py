"""What is predicted of a masked region of an image."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.types import Batch


@dataclasses.dataclass
class RegionTarget:
    """Base of what is predicted of a region.

    Attributes:
      keys: of a batch, that it needs.
    """

    keys: ClassVar[tuple[str, ...]] = ()

    def targets(self, batch: Batch, features: Float[Array, "B R C"]) -> Float[Array, "B R K"]:
        """What is predicted of each region of a batch, from the batch and the regions' features."""
        raise NotImplementedError

    def error(self, outputs: Float[Array, "B R K"], targets: Float[Array, "B R K"]) -> Float[Array, "B R"]:
        """The loss of each region, float32."""
        raise NotImplementedError


@dataclasses.dataclass
class RegionClasses(RegionTarget):
    """A detector's probabilities of the region's classes: the divergence from these, in nats (Lu et al. 2019, 3.2).

    The batch has them as `region_classes`.
    """

    keys: ClassVar[tuple[str, ...]] = ("region_classes",)

    def targets(self, batch: Batch, features: Float[Array, "B R C"]) -> Float[Array, "B R K"]:
        return batch["region_classes"].astype(jnp.float32)

    def error(self, outputs: Float[Array, "B R K"], targets: Float[Array, "B R K"]) -> Float[Array, "B R"]:
        entropy = -jax.scipy.special.xlogy(targets, targets).sum(-1)
        return -(targets * jax.nn.log_softmax(outputs)).sum(-1) - entropy


@dataclasses.dataclass
class RegionFeatures(RegionTarget):
    """The region's features: the squared error, averaged over them. Cells of a grid are predicted so."""

    def targets(self, batch: Batch, features: Float[Array, "B R C"]) -> Float[Array, "B R K"]:
        return features.astype(jnp.float32)

    def error(self, outputs: Float[Array, "B R K"], targets: Float[Array, "B R K"]) -> Float[Array, "B R"]:
        return jnp.square(outputs - targets).mean(-1)
