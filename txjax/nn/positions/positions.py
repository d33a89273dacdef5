"""Position encodings: added to embeddings, by rotation of queries and keys, or added to attention scores."""

import math
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from txjax.errors import UserError
from txjax.nn.layers.embed import Embed
from txjax.nn.layers.linear import align, parameter
from txjax.nn.parameters.table_rows import table_rows
from txjax.nn.positions.rotary_scaling import Frequencies, RotaryScaling
from txjax.types import config_field

Rotation = tuple[Float[Array, "#B L half"], Float[Array, "#B L half"]]  # half = K/2


class Grid(NamedTuple):
    """The order of an image's tokens: `prefix` tokens (the class token), then patches row by row.

    Attributes:
      rows: of patches.
      columns: patches in a row.
      prefix: tokens before the first patch.
    """

    rows: int
    columns: int
    prefix: int = 0


def padded_image(x: Shaped[Array, "B L *D"], grid: Grid, multiple: int) -> Shaped[Array, "B R C *D"]:
    """The tokens of a grid as an image, with zeros below and on the right to a multiple of rows and columns."""
    if grid.prefix:
        raise UserError("config.model", "a model without a class token: only the patches of a grid", grid)
    image = x.reshape(x.shape[0], *grid[:2], *x.shape[2:])
    more = [(0, 0), *((0, -size % multiple) for size in grid[:2]), *((0, 0),) * (x.ndim - 2)]
    return jnp.pad(image, more) if any(after for _, after in more) else image


class Positions(nn.Module):
    """Base of position encodings; a variant overrides one of the four methods, and the others do nothing.

    Each is called once a forward pass, outside the layers. Positions are int32 [B L], or [1 L] if they are the same
    for all examples.
    """

    @nn.nowrap
    def numbers(self, length: int, segments: Int[Array, "B L"] | None) -> Int[Array, "#B L"]:
        """The positions of a text's tokens, where the batch has none: their indices in the window.

        Args:
          segments: 0 is padding. If None, no token is padding.
        """
        return jnp.arange(length, dtype=jnp.int32)[None]

    def add(
        self, x: Float[Array, "B L D"], positions: Int[Array, "#B L"], grid: Grid | None = None
    ) -> Float[Array, "B L D"]:
        """The embeddings with their positions added. `grid`: the order of an image's tokens, None for text."""
        return x

    def rotation(self, positions: Int[Array, "B L"], head_size: int) -> Rotation | None:
        """Cosines and sines that rotate queries and keys, float32 [B L K/2]."""
        return None

    def bias(
        self, queries: Int[Array, "B Q"], keys: Int[Array, "B S"], heads: int, causal: bool = False
    ) -> Float[Array, "B H Q S"] | None:
        """The bias added to the scores, float32. `causal`: whether no query sees a later key."""
        return None

    def relative(self, length: int, width: int) -> Float[Array, "1 R D"] | None:
        """The vectors, of this width, of the distances query - key = 1 - L, ..., L - 1 in a window; R = 2L - 1."""
        return None


class NoPositions(Positions):
    """No position encoding (a causal decoder can still learn positions: Haviv et al. 2022)."""


class Learned(Positions):
    """A learned vector for each of `max_length` positions. Parameter `table/embedding` [positions D]."""

    max_length: int = config_field(512, at_least=1)

    @nn.compact
    def add(
        self, x: Float[Array, "B L D"], positions: Int[Array, "#B L"], grid: Grid | None = None
    ) -> Float[Array, "B L D"]:
        if x.shape[1] > self.max_length:
            raise UserError(
                "config.model.positions.max_length", f"at least the input's length of {x.shape[1]}", self.max_length
            )
        return x + Embed(self.max_length, x.shape[-1], axis="positions", name="table")(positions, x.dtype)


class PaddingAwareLearned(Learned):
    """RoBERTa's `Learned` (Liu et al. 2019): the i-th token that is not padding has the row `first` + i.

    Padding has the row before these, and the others before are not used: so a table of 514 rows serves 512 tokens.

    Attributes:
      max_length: rows of the table.
      first: the row of the first token; in the authors' code, the id of the padding token and 1.
    """

    max_length: int = config_field(514, at_least=1)
    first: int = config_field(2, at_least=1)

    @nn.nowrap
    def numbers(self, length: int, segments: Int[Array, "B L"] | None) -> Int[Array, "#B L"]:
        """The tokens counted from 0; -1 for padding."""
        if segments is None:
            return super().numbers(length, segments)
        token_mask = (segments > 0).astype(jnp.int32)
        return jnp.cumsum(token_mask, axis=1, dtype=jnp.int32) * token_mask - 1

    def add(
        self, x: Float[Array, "B L D"], positions: Int[Array, "#B L"], grid: Grid | None = None
    ) -> Float[Array, "B L D"]:
        if (needed := x.shape[1] + self.first) > self.max_length:
            expected = f"at least {needed}: the input's length and first = {self.first}"
            raise UserError("config.model.positions.max_length", expected, self.max_length)
        return super().add(x, positions + self.first)


def waves(
    positions: jax.Array, count: int, theta: float, scaling: RotaryScaling | None = None, endpoint: bool = False
) -> Float[Array, "... count"]:
    """The angles positions / theta^(i / count) for i < count, float32; `scaling` of these frequencies, if not None.

    Args:
      endpoint: whether the exponents are i / (count - 1), the last of which is 1.
    """
    frequencies: Frequencies = theta ** (-np.arange(count, dtype=np.float64) / max(1, count - endpoint))
    if scaling is not None:
        frequencies = scaling(frequencies)
    angles = positions[..., None].astype(jnp.float32)
    return angles * align(jnp.asarray(frequencies, jnp.float32), angles)


class Sinusoidal(Positions):
    """Sines and cosines at wavelengths up to 2 pi theta (Vaswani et al. 2017, 3.5).

    Attributes:
      layout: "interleaved" has sines in the even, cosines in the odd channels, as in the paper; "halves" has sines in
        the first and cosines in the second half, as in the authors' code and in Marian.
      endpoint: whether the largest wavelength is 2 pi theta itself, as in Speech2Text and Whisper (exponents i / (D/2 -
        1) of theta); else i / (D/2).
      first: the number of the first position; 2 in Speech2Text, where 1 is padding.
      amplitude: of the waves. 1 is for embeddings of unit variance, as in the paper; it is too large for embeddings
        initialised with a standard deviation of 0.02.
    """

    theta: float = config_field(10000.0, above=1, traced=True)
    amplitude: float = config_field(1.0, above=0, traced=True)
    layout: str = config_field("interleaved", choices=("interleaved", "halves"))
    endpoint: bool = False
    first: int = config_field(0, at_least=0)

    def add(
        self, x: Float[Array, "B L D"], positions: Int[Array, "#B L"], grid: Grid | None = None
    ) -> Float[Array, "B L D"]:
        if x.shape[-1] % 2:
            raise UserError("config.model.width", "an even number for Sinusoidal positions", x.shape[-1])
        angles = waves(positions + self.first, x.shape[-1] // 2, self.theta, endpoint=self.endpoint)
        axis = -1 if self.layout == "interleaved" else -2
        table = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis).reshape(*positions.shape, -1)
        return x + (self.amplitude * table).astype(x.dtype)


class Sinusoidal2D(Positions):
    """Fixed sines and cosines of a patch's column, then of its row; zero for prefix tokens (He et al. 2022)."""

    theta: float = config_field(10000.0, above=1, traced=True)

    def add(
        self, x: Float[Array, "B L D"], positions: Int[Array, "#B L"], grid: Grid | None = None
    ) -> Float[Array, "B L D"]:
        if x.shape[-1] % 4:
            raise UserError("config.model.width", "a multiple of 4 for Sinusoidal2D positions", x.shape[-1])
        if grid is None:
            raise UserError("config.model.positions", "positions of text, such as Sinusoidal()", "Sinusoidal2D()")
        patch = positions - grid.prefix
        angles = [waves(place, x.shape[-1] // 4, self.theta) for place in (patch % grid.columns, patch // grid.columns)]
        table = jnp.concatenate([wave(angle) for angle in angles for wave in (jnp.sin, jnp.cos)], -1)
        return x + jnp.where(patch[..., None] >= 0, table, 0).astype(x.dtype)


class Rotary(Positions):
    """Rotates channels i, i + K/2 of queries and keys by position / theta^(2i/K) (Su et al. 2021; Llama's pairs).

    The paper pairs channels 2i and 2i + 1, as files of RoFormer do: the same model, with the channels of each head's
    queries and keys in another order.

    Attributes:
      scaling: of the frequencies 1 / theta^(2i/K): `LinearScaling`, `Llama3Scaling`. If None, they are not scaled.
    """

    theta: float = config_field(10000.0, above=1, traced=True)
    scaling: RotaryScaling | None = None

    def rotation(self, positions: Int[Array, "B L"], head_size: int) -> Rotation | None:
        if head_size % 2:
            raise UserError("config.model.heads", "an even head size for Rotary positions", head_size)
        angles = waves(positions, head_size // 2, self.theta, self.scaling)
        return jnp.cos(angles), jnp.sin(angles)


def distances(queries: Int[Array, "B Q"], keys: Int[Array, "B S"]) -> Int[Array, "B Q S"]:
    """key - query."""
    return keys[:, None, :] - queries[:, :, None]


def alibi_slopes(heads: int) -> list[float]:
    """2^(-8i/heads) for i = 1..heads; heads beyond a power of two get every other slope of the next power."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    return slopes + [2 ** (-4 * i / power) for i in range(1, 2 * (heads - power), 2)]


class Alibi(Positions):
    """A bias of -slope * |query - key|, with a slope for each head (Press et al. 2022)."""

    def bias(
        self, queries: Int[Array, "B Q"], keys: Int[Array, "B S"], heads: int, causal: bool = False
    ) -> Float[Array, "B H Q S"] | None:
        slopes = jnp.asarray(alibi_slopes(heads), jnp.float32)[None, :, None, None]
        return -slopes * jnp.abs(distances(queries, keys))[:, None].astype(jnp.float32)


def t5_bucket(distance: jax.Array, buckets: int, max_distance: int, direction: str) -> jax.Array:
    """The bucket of key - query: one each up to half the buckets, then logarithmic up to `max_distance`."""
    first = jnp.zeros_like(distance)
    if direction == "both":
        buckets //= 2
        first = jnp.where(distance > 0, buckets, 0)
        away = jnp.abs(distance)
    else:
        away = jnp.maximum(-distance, 0)
    exact = buckets // 2
    ratio = jnp.maximum(away, exact).astype(jnp.float32) / exact
    far = exact + (jnp.log(ratio) / math.log(max_distance / exact) * (buckets - exact)).astype(distance.dtype)
    return first + jnp.where(away < exact, away, jnp.minimum(far, buckets - 1))


class T5Relative(Positions):
    """A learned bias for each head and bucket of distances, shared by all layers (Raffel et al. 2020, 2.1).

    Parameter `table` [buckets heads].

    Attributes:
      buckets: number of buckets.
      max_distance: distances from here on share one bucket.
      direction: "past", or "both" (half the buckets each way). If None, "past" under a causal mask, else "both".
    """

    buckets: int = config_field(32, at_least=4)
    max_distance: int = config_field(128, at_least=2)
    direction: str | None = config_field(None, choices=("past", "both"))

    @nn.compact
    def bias(
        self, queries: Int[Array, "B Q"], keys: Int[Array, "B S"], heads: int, causal: bool = False
    ) -> Float[Array, "B H Q S"] | None:
        size = (self.buckets, heads)
        axes = ("buckets", "heads")
        table = parameter(self, "table", nn.initializers.normal(0.02), size, axes, 1)
        direction = self.direction or ("past" if causal else "both")
        bucket = t5_bucket(distances(queries, keys), self.buckets, self.max_distance, direction)
        return jnp.moveaxis(table_rows(table, bucket, "buckets"), -1, 1)
