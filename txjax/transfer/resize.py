"""Ways to bring one axis of an array of another run to its size here, such as positions or layers."""

import dataclasses
import math
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass(kw_only=True)
class ResizeAxis:
    """Base of ways to bring an axis to another size. A subclass gives `axis` its default.

    Attributes:
      axis: the logical axis that it applies to, wherever a parameter has it: `positions`, `layers`, ...
    """

    axis: str

    def __call__(self, table: Shaped[Array, "P D"], rows: int) -> Shaped[Array, "{rows} D"]:
        """The table with `rows` rows along the axis, in its own dtype."""
        raise NotImplementedError

    def check(self, rows: int, there: int) -> None:
        """Raises UserError if an axis of size `there` can't be brought to size `rows`."""

    def keeps(self, rows: int, there: int) -> bool:
        """Whether an axis of size `there` stays as it is."""
        return rows == there

    def resize_axis(self, array: Shaped[Array, "..."], number: int, rows: int) -> Shaped[Array, "..."]:
        """The array with its axis of this number brought to size `rows`."""
        first = jnp.moveaxis(array, number, 0)
        table = self(first.reshape(len(first), -1), rows)
        return jnp.moveaxis(table.reshape(rows, *first.shape[1:]), 0, number)


@dataclasses.dataclass
class Linear1D(ResizeAxis):
    """Linear interpolation of positions along a line, such as a text's, between their centres.

    The centres of both tables coincide. A shorter table averages rows (antialias), so no old row is skipped.
    """

    axis: str = dataclasses.field(default="positions", kw_only=True)

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        return jax.image.resize(table, (rows, table.shape[1]), "linear").astype(table.dtype)


@dataclasses.dataclass
class Bicubic(ResizeAxis):
    """Bicubic interpolation of positions of image patches, row by row, after `prefix` positions that are unchanged.

    Keys's cubic kernel (1981, a = -1/2) between the centres of patches, weights normalised at the border; for a smaller
    grid the kernel is widened by the ratio (antialias), so no old row is skipped.

    Attributes:
      prefix: positions before the first patch (1 for a class token).
      columns: patches in a row here. If None, the grid is square.
      columns_there: the same in the source run.
      prefix_there: positions before the first patch in the source run; the last one is copied where here are more. If
        None, as many as here.
    """

    prefix: int = config_field(1, at_least=0)
    columns: int | None = config_field(None, at_least=1)
    columns_there: int | None = config_field(None, at_least=1)
    prefix_there: int | None = config_field(None, at_least=1)
    axis: str = dataclasses.field(default="positions", kw_only=True)
    method: ClassVar[str] = "cubic"

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        before = self._there.grid(len(table))
        after = self._here.grid(rows)
        skipped = self._there.prefix
        copies = [table[skipped - 1 : skipped]] * (self.prefix - skipped)
        patches = self.resize_grid(table[skipped:].reshape(*before, -1), after).reshape(-1, table.shape[1])
        return jnp.concatenate([table[: min(self.prefix, skipped)], *copies, patches.astype(table.dtype)])

    def resize_grid(self, patches: Float[Array, "R C D"], size: tuple[int, int]) -> Float[Array, "r c D"]:
        """The positions of a grid of so many rows and columns."""
        return jax.image.resize(patches, (*size, patches.shape[2]), self.method)

    def check(self, rows: int, there: int) -> None:
        if self.keeps(rows, there):
            return
        self._here.check(rows, self.axis, "columns")
        self._there.check(there, self.axis, "columns_there")

    def keeps(self, rows: int, there: int) -> bool:
        here = self._here
        origin = self._there
        return rows == there and here.prefix == origin.prefix and here.grid(rows) == origin.grid(there)

    @property
    def _here(self) -> "_Patches":
        return _Patches(self.prefix, self.columns)

    @property
    def _there(self) -> "_Patches":
        return _Patches(self.prefix if self.prefix_there is None else self.prefix_there, self.columns_there)


class _Patches(NamedTuple):
    """How a table of positions is a grid.

    Attributes:
      prefix: positions before the first patch.
      columns: patches in a row. If None, the grid is square.
    """

    prefix: int
    columns: int | None

    def grid(self, count: int) -> tuple[int, int]:
        """The rows and columns of so many positions."""
        patches = count - self.prefix
        columns = math.isqrt(patches) if self.columns is None else self.columns
        return patches // columns, columns

    def check(self, count: int, axis: str, field: str) -> None:
        """Raises UserError unless so many positions are a prefix and a grid."""
        patches = count - self.prefix
        if patches <= 0 or math.prod(self.grid(count)) != patches:
            expected = f"a grid of {patches} patches ({self.prefix} of {count} {axis} are the prefix)"
            got = "a square grid" if self.columns is None else f"rows of {self.columns}"
            raise UserError(f"resize.{field}", expected, got)


@dataclasses.dataclass
class Bilinear(Bicubic):
    """The same with two rows and two columns: of tables of window attention, for windows of another side.

    A table is a square grid of the differences of rows and columns. So Tu et al. 2022 (MaxViT) go from windows of 7 to
    12 and 16, with images of 384 and 512 pixels.
    """

    prefix: int = config_field(0, at_least=0)
    axis: str = dataclasses.field(default="offsets", kw_only=True)
    method: ClassVar[str] = "linear"


@dataclasses.dataclass
class Every(ResizeAxis):
    """Every n-th layer, as DistilBERT starts from every second one of its teacher (Sanh et al. 2019, arXiv:1910.01108).

    Attributes:
      step: layers from one that is taken to the next.
      start: the first one that is taken.
    """

    step: int = config_field(2, at_least=1)
    start: int = config_field(0, at_least=0)
    axis: str = dataclasses.field(default="layers", kw_only=True)

    def __call__(self, table: Shaped[Array, "P D"], rows: int) -> Shaped[Array, "{rows} D"]:
        return table[self.start :: self.step]

    def check(self, rows: int, there: int) -> None:
        if (count := len(range(self.start, there, self.step))) != rows:
            taken = f"every {self.step}. from {self.start}, which are {count}"
            raise UserError("resize", f"{rows} of the {there} {self.axis}", taken)


@dataclasses.dataclass
class First(ResizeAxis):
    """The first layers.

    Attributes:
      count: how many.
    """

    count: int = config_field(at_least=1)
    axis: str = dataclasses.field(default="layers", kw_only=True)

    def __call__(self, table: Shaped[Array, "P D"], rows: int) -> Shaped[Array, "{rows} D"]:
        return table[: self.count]

    def check(self, rows: int, there: int) -> None:
        if not self.count == rows <= there:
            raise UserError("resize", f"{rows} of the {there} {self.axis}", f"the first {self.count}")


@dataclasses.dataclass
class Last(ResizeAxis):
    """The last layers, such as those of a BERT that are in the streams of a ViLBERT.

    Attributes:
      count: how many.
    """

    count: int = config_field(at_least=1)
    axis: str = dataclasses.field(default="layers", kw_only=True)

    def __call__(self, table: Shaped[Array, "P D"], rows: int) -> Shaped[Array, "{rows} D"]:
        return table[-self.count :]

    def check(self, rows: int, there: int) -> None:
        if not self.count == rows <= there:
            raise UserError("resize", f"{rows} of the {there} {self.axis}", f"the last {self.count}")
