"""Square windows of a grid of tokens, and shifted ones (Liu et al. 2021, Swin)."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from txjax.errors import UserError
from txjax.nn.positions.positions import Grid, padded_image


@dataclasses.dataclass(frozen=True)
class Windows:
    """The partition of a grid's tokens into windows of side x side, after a cyclic shift.

    Attention in windows is attention over [BW S D], BW = B * count and S = side^2, with
    `Mask.within(windows.segments(B))` and, if it has relative positions, a learned table whose rows' numbers are in
    `offsets`. A grid that the side doesn't divide is padded below and on the right; windows see the padding.

    Attributes:
      grid: without a prefix.
      side: of a window.
      shift: by how many rows and columns the windows begin later. They wrap around at the end of the (padded) grid,
        where tokens that are no neighbours meet in one window.
    """

    grid: Grid
    side: int
    shift: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.shift < self.side:
            raise UserError("windows.shift", f"a number from 0, below the side of {self.side}", self.shift)

    @classmethod
    def fitted(cls, grid: Grid, side: int, shift: int) -> "Windows":
        """Windows at most as large as the grid: where a side of the grid is no longer than a window's, no shift."""
        shortest = min(grid[:2])
        return cls(grid, side, shift) if side < shortest else cls(grid, shortest)

    @property
    def count(self) -> int:
        """The number of windows."""
        return self._windows[0] * self._windows[1]

    def cut(self, x: Shaped[Array, "B L *D"]) -> Shaped[Array, "BW S *D"]:
        """The tokens of every window row by row, the windows of an example one after the other."""
        image = padded_image(x, self.grid, self.side)
        if self.shift:
            image = jnp.roll(image, (-self.shift, -self.shift), (1, 2))
        return self._split(image).reshape(-1, self.side**2, *x.shape[2:])

    def join(self, windows: Shaped[Array, "BW S *D"]) -> Shaped[Array, "B L *D"]:
        """The inverse of `cut`."""
        (rows, columns) = self._windows
        dims = windows.shape[2:]
        tiles = windows.reshape(-1, rows, columns, self.side, self.side, *dims)
        image = self._merge(tiles).reshape(-1, rows * self.side, columns * self.side, *dims)
        if self.shift:
            image = jnp.roll(image, (self.shift, self.shift), (1, 2))
        return image[:, : self.grid.rows, : self.grid.columns].reshape(-1, self.grid.rows * self.grid.columns, *dims)

    def tokens(self) -> Int[Array, "W S"]:
        """The numbers of every window's tokens in the grid, row by row; -1 is padding."""
        rows, columns = self.grid[:2]
        return self.cut(jnp.arange(1, 1 + rows * columns, dtype=jnp.int32)[None]) - 1

    def segments(self, batch: int) -> Int[Array, "BW S"] | None:
        """Numbers from 1, equal for tokens of a window that are neighbours in the grid. None if all are: no shift."""
        if not self.shift:
            return None
        # Rows and columns in the order after the shift: the last ones of a shifted axis have wrapped around.
        sizes = tuple(count * self.side for count in self._windows)
        bounds = ((size, [size - self.side, size - self.shift]) for size in sizes)
        rows, columns = (np.digitize(np.arange(size), ends) for size, ends in bounds)
        numbers = jnp.asarray(1 + 3 * rows[:, None] + columns[None], jnp.int32).reshape(1, -1)
        return jnp.tile(Windows(Grid(*sizes), self.side).cut(numbers), (batch, 1))

    def offsets(self, side: int | None = None) -> Int[np.ndarray, "S S"]:
        """(rows + side - 1) * (2 side - 1) + columns + side - 1, differences of the query's and the key's.

        Args:
          side: of the windows whose table of (2 side - 1)^2 rows is meant, not smaller than these. If None, of these.
        """
        reach = (side or self.side) - 1
        row, column = np.divmod(np.arange(self.side**2), self.side)
        rows, columns = (numbers[:, None] - numbers[None] + reach for numbers in (row, column))
        return rows * (2 * reach + 1) + columns

    def _split(self, image: Shaped[Array, "B R C *D"]) -> Shaped[Array, "B r c S S *D"]:
        """The windows of an image whose sides are multiples of theirs."""
        rows, columns = self._windows
        tiles = image.reshape(image.shape[0], rows, self.side, columns, self.side, *image.shape[3:])
        return tiles.swapaxes(2, 3)

    def _merge(self, tiles: Shaped[Array, "B r c S S *D"]) -> Shaped[Array, "B r S c S *D"]:
        """The inverse of `_split`, but for the shape."""
        return tiles.swapaxes(2, 3)

    @property
    def _windows(self) -> tuple[int, int]:
        """Windows from top to bottom and from left to right."""
        return -(-self.grid.rows // self.side), -(-self.grid.columns // self.side)


class StridedWindows(Windows):
    """The partition into sets of side x side tokens that are equally far apart all over the grid (Tu et al. 2022, 3.2).

    A set has one token of each window that is as large as the grid divided by the side: the axes of windows and of
    their tokens change places. Its tokens are in the order of the grid, so `offsets` are those of windows. None shift.
    """

    def _split(self, image: Shaped[Array, "B R C *D"]) -> Shaped[Array, "B r c S S *D"]:
        rows, columns = self._windows
        tiles = image.reshape(image.shape[0], self.side, rows, self.side, columns, *image.shape[3:])
        return jnp.moveaxis(tiles, (2, 4), (1, 2))

    def _merge(self, tiles: Shaped[Array, "B r c S S *D"]) -> Shaped[Array, "B S r S c *D"]:
        return jnp.moveaxis(tiles, (1, 2), (2, 4))
