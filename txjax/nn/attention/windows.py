"""Square windows of a grid of tokens, and shifted ones (Liu et al. 2021, Swin)."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Shaped

from txjax.nn.positions import Grid
from txjax.types import UserError


@dataclasses.dataclass(frozen=True)
class Windows:
    """The partition of a grid's tokens into windows of side x side, after a cyclic shift.

    Attention in windows is attention over [BW S D], BW = B * count and S = side^2, with
    `Mask.within(windows.segments(B))` and, if it has relative positions, a learned table of (2 side - 1)^2 rows whose
    numbers are in `offsets`.

    Attributes:
      grid: without a prefix.
      side: of a window, a divisor of rows and columns.
      shift: by how many rows and columns the windows begin later. They wrap around at the end of the grid, where
        tokens that are no neighbours meet in one window.
    """

    grid: Grid
    side: int
    shift: int = 0

    @property
    def count(self) -> int:
        """The number of windows."""
        return self._windows[0] * self._windows[1]

    def cut(self, x: Shaped[Array, "B L D"]) -> Shaped[Array, "BW S D"]:
        """The tokens of every window row by row, the windows of an example one after the other."""
        image = x.reshape(x.shape[0], self.grid.rows, self.grid.columns, x.shape[2])
        if self.shift:
            image = jnp.roll(image, (-self.shift, -self.shift), (1, 2))
        rows, columns = self._windows
        tiles = image.reshape(x.shape[0], rows, self.side, columns, self.side, x.shape[2])
        return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(-1, self.side**2, x.shape[2])

    def join(self, windows: Shaped[Array, "BW S D"]) -> Shaped[Array, "B L D"]:
        """The inverse of `cut`."""
        (rows, columns), width = self._windows, windows.shape[2]
        tiles = windows.reshape(-1, rows, columns, self.side, self.side, width).transpose(0, 1, 3, 2, 4, 5)
        image = tiles.reshape(-1, self.grid.rows, self.grid.columns, width)
        if self.shift:
            image = jnp.roll(image, (self.shift, self.shift), (1, 2))
        return image.reshape(-1, self.grid.rows * self.grid.columns, width)

    def segments(self, batch: int) -> Int[Array, "BW S"] | None:
        """Numbers from 1, equal for tokens of a window that are neighbours in the grid. None if all are: no shift."""
        if not self.shift:
            return None
        # Rows and columns in the order after the shift: the last ones of a shifted axis have wrapped around.
        bounds = ((size, [size - self.side, size - self.shift]) for size in self.grid[:2])
        rows, columns = (np.digitize(np.arange(size), ends) for size, ends in bounds)
        numbers = jnp.asarray(1 + 3 * rows[:, None] + columns[None], jnp.int32).reshape(1, -1, 1)
        own = dataclasses.replace(self, shift=0).cut(numbers)[..., 0]
        return jnp.tile(own, (batch, 1))

    def offsets(self) -> Int[np.ndarray, "S S"]:
        """(rows + side - 1) * (2 side - 1) + columns + side - 1, differences of the query's and the key's."""
        row, column = np.divmod(np.arange(self.side**2), self.side)
        rows, columns = (own[:, None] - own[None] + self.side - 1 for own in (row, column))
        return rows * (2 * self.side - 1) + columns

    @property
    def _windows(self) -> tuple[int, int]:
        rows, columns, prefix = self.grid
        if prefix or rows % self.side or columns % self.side or not 0 <= self.shift < self.side:
            expected = (
                f"a divisor of the grid of {rows} x {columns} tokens without others, above the shift of {self.shift}"
            )
            raise UserError("windows.side", expected, self.side)
        return rows // self.side, columns // self.side
