"""Ways to choose the patches of an image that a masked autoencoder sees."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class PatchMask:
    """Base class: an order of an image's patches, of which the first ones stay visible."""

    def __call__(self, key: jax.Array, rows: int, columns: int) -> Int[Array, "N"]:
        """The numbers of the patches, 0 to rows * columns - 1, in the order in which they would stay visible."""
        raise NotImplementedError


@dataclasses.dataclass
class RandomMask(PatchMask):
    """Every patch is as likely to be hidden as any other (He et al. 2022, 3)."""

    def __call__(self, key: jax.Array, rows: int, columns: int) -> Int[Array, "N"]:
        return jax.random.permutation(key, rows * columns)


@dataclasses.dataclass
class GridMask(PatchMask):
    """One patch stays visible of each square of `side` x `side`, the upper left one (He et al. 2022, figure 6).

    For a rate of 1 - 1 / side^2; at another one, or where `side` doesn't divide the grid, some of these patches are
    hidden too, or others stay visible, at random.
    """

    side: int = config_field(2, at_least=2)

    def __call__(self, key: jax.Array, rows: int, columns: int) -> Int[Array, "N"]:
        row, column = jnp.divmod(jnp.arange(rows * columns), columns)
        regular = (row % self.side == 0) & (column % self.side == 0)
        return jnp.argsort(jax.random.uniform(key, (rows * columns,)) - regular)


@dataclasses.dataclass
class BlockMask(PatchMask):
    """Whole blocks of patches are hidden, one after the other until they are enough (Bao et al. 2022, algorithm 1).

    A block's area is uniform in `area` times the image's, its height : width log-uniform in `ratio`, its position
    uniform. Of the last block only some patches are hidden, at random, so that their number is exact.

    Attributes:
      area: the range of a block's area, as a fraction of the image's.
      ratio: the range of height : width.
      blocks: blocks drawn; if they hide too few patches, further ones are hidden at random.
    """

    area: tuple[float, float] = (0.08, 0.4)
    ratio: tuple[float, float] = (0.3, 10 / 3)
    blocks: int = config_field(32, at_least=1)

    def __call__(self, key: jax.Array, rows: int, columns: int) -> Int[Array, "N"]:
        if not 0 < self.area[0] <= self.area[1] <= 1:
            raise UserError("config.objective.mask.area", "two ascending numbers in (0, 1]", self.area)
        if not 0 < self.ratio[0] <= self.ratio[1]:
            raise UserError("config.objective.mask.ratio", "two ascending numbers above 0", self.ratio)
        draw = jax.random.uniform(key, (4 * self.blocks + rows * columns,))
        size, shape, top, left = draw[: 4 * self.blocks].reshape(4, self.blocks)
        size = rows * columns * (self.area[0] + size * (self.area[1] - self.area[0]))
        shape = jnp.exp(jnp.log(self.ratio[0]) + shape * jnp.log(self.ratio[1] / self.ratio[0]))
        height = jnp.clip(jnp.round(jnp.sqrt(size * shape)), 1, rows)
        width = jnp.clip(jnp.round(jnp.sqrt(size / shape)), 1, columns)
        in_rows = _is_between(jnp.arange(rows), jnp.floor(top * (rows - height + 1)), height)
        in_columns = _is_between(jnp.arange(columns), jnp.floor(left * (columns - width + 1)), width)
        inside = (in_rows[:, :, None] & in_columns[:, None, :]).reshape(self.blocks, -1)
        first = jnp.where(inside.any(0), inside.argmax(0), self.blocks)  # the block that hides a patch
        return jnp.argsort(-(first + draw[4 * self.blocks :]))


def _is_between(index: jax.Array, start: jax.Array, length: jax.Array) -> jax.Array:
    """bool [blocks I]: whether each of the indices [I] is one of `length` [blocks] from `start` [blocks] on."""
    is_between: jax.Array = (index[None] >= start[:, None]) & (index[None] < (start + length)[:, None])
    return is_between
