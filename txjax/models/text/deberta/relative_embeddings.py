"""Learned vectors of relative positions, which all layers share (He et al. 2021, DeBERTa)."""

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.errors import UserError
from txjax.nn.layers.embed import Embed
from txjax.nn.layers.norms import Norm
from txjax.nn.positions.positions import Positions
from txjax.types import config_field


def log_bucket(distance: np.ndarray, buckets: int, max_distance: int) -> np.ndarray:
    """The bucket of a distance, of the same sign: one each up to half the buckets, then logarithmic, as in DeBERTa v2.

    `max_distance` - 1 has the bucket `buckets` - 1.
    """
    half = buckets // 2
    away = np.maximum(np.abs(distance), half).astype(np.float32)
    far = np.log(away / half) / np.log(np.float32((max_distance - 1) / half)) * (half - 1)
    return np.where(np.abs(distance) <= half, distance, np.sign(distance) * (np.ceil(far) + half)).astype(np.int64)


class RelativeEmbeddings(Positions):
    """A learned vector for each distance of a query from a key, for `DisentangledAttention`.

    Parameters `table/embedding` [2N D] for N = `buckets`, or `max_distance` without these, and `norm_table`.
    Distances of N and more share the last vector of their side.

    Attributes:
      max_distance: distances from here on are not distinguished.
      buckets: on each side; `log_bucket` assigns them (DeBERTa v2). If None, every distance has its own vector.
      norm: of the vectors. If None, there is none.
    """

    max_distance: int = config_field(512, at_least=2)
    buckets: int | None = config_field(None, at_least=4)
    norm: Norm | None = None

    @nn.compact
    def relative(self, length: int, width: int) -> Float[Array, "1 R D"]:
        distances = np.arange(1 - length, length)
        size = self.buckets or self.max_distance
        if self.buckets is not None:
            if self.max_distance <= self.buckets // 2 + 1:
                expected = f"more than half of the {self.buckets} buckets and 1"
                raise UserError("config.model.positions.max_distance", expected, self.max_distance)
            distances = log_bucket(distances, self.buckets, self.max_distance)
        rows = jnp.asarray(np.clip(distances + size, 0, 2 * size - 1), jnp.int32)
        vectors = Embed(2 * size, width, axis="positions", name="table")(rows[None])
        return vectors if self.norm is None else self.norm.clone(parent=self, name="norm_table")(vectors)
