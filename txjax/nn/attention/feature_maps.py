"""Maps of queries and keys to positive features, whose products are the weights of attention without a softmax."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.parametrization import Scaling
from txjax.types import config_field

_LARGEST = 60.0  # exponents are cut here, so that sums of features stay finite in float32


@dataclasses.dataclass
class FeatureMap:
    """Base of maps to positive features: a key's weight is proportional to `queries(q)` . `keys(k)`.

    The features of a query may have any positive factor; a key's have the same one at all positions, so that a
    sum over the keys can be continued.
    """

    def queries(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch M"]:
        """The features of queries, float32."""
        return self.keys(x)

    def keys(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch M"]:
        """The features of keys, float32."""
        raise NotImplementedError

    def factor(self, scaling: Scaling) -> float:
        """The factor of the queries that follows from the model's size."""
        return 1.0


@dataclasses.dataclass
class EluPlusOne(FeatureMap):
    """elu(x) + 1, as many features as a head has channels (Katharopoulos et al. 2020, equation 7)."""

    def keys(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch M"]:
        return jax.nn.elu(x.astype(jnp.float32)) + 1


@dataclasses.dataclass
class FavorPlus(FeatureMap):
    """Positive orthogonal random features (Choromanski et al. 2021, FAVOR+): an estimate of softmax attention.

    The mean of a weight over draws of the projection is exp(q . k / sqrt(K)); one draw's error falls as 1 / sqrt(M).
    The projection is a constant of the program, the same in all layers and heads; it is not drawn again.

    Attributes:
      features: M.
      seed: of the projection.
    """

    features: int = config_field(256, at_least=1)
    seed: int = config_field(0, at_least=0)

    def queries(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch M"]:
        exponents = self._exponents(x)
        largest = jax.lax.stop_gradient(exponents.max(-1, keepdims=True))
        return jnp.exp(exponents - largest) / self.features**0.5

    def keys(self, x: Float[Array, "*batch K"]) -> Float[Array, "*batch M"]:
        return jnp.exp(jnp.minimum(self._exponents(x), _LARGEST)) / self.features**0.5

    def factor(self, scaling: Scaling) -> float:
        return scaling.attention()

    def _exponents(self, x: jax.Array) -> jax.Array:
        """w . x - |x|^2 / 2 for each row w of the projection, of x / K^(1/4)."""
        x = x.astype(jnp.float32) * x.shape[-1] ** -0.25
        rows = jnp.asarray(orthogonal_rows(self.features, x.shape[-1], self.seed))
        return jnp.einsum("...k,mk->...m", x, rows) - jnp.square(x).sum(-1, keepdims=True) / 2


def orthogonal_rows(count: int, size: int, seed: int) -> Float[np.ndarray, "M K"]:
    """Rows of normal vectors' lengths, orthogonal in blocks of K, float32 (section 3.2)."""
    rng = np.random.default_rng(seed)
    blocks = [np.linalg.qr(rng.normal(size=(size, size)))[0].T for _ in range(-(-count // size))]
    lengths = np.linalg.norm(rng.normal(size=(count, size)), axis=-1, keepdims=True)
    return (np.concatenate(blocks)[:count] * lengths).astype(np.float32)
