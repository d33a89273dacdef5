"""Transfer of parameters from another run: which ones, under which paths, and resampled positions."""

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.types import UserError, config_field, near_misses

FIELD = "config.init_from"
ACTIONS = ("loaded", "resampled", "new", "dropped")


@dataclasses.dataclass
class Resample:
    """Base of ways to resize a table of learned positions."""

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        """The table for `rows` positions, in its own dtype."""
        raise NotImplementedError

    def check(self, rows: int, there: int) -> None:
        """Raises UserError if a table of `there` rows can't be resized to `rows`."""


@dataclasses.dataclass
class Linear1D(Resample):
    """Linear interpolation of positions along a line, such as a text's, between their centres.

    The centres of both tables coincide. A shorter table averages rows (antialias), so no old row is skipped.
    """

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        return jax.image.resize(table, (rows, table.shape[1]), "linear").astype(table.dtype)


@dataclasses.dataclass
class Bicubic(Resample):
    """Bicubic interpolation of positions of image patches, row by row, after `prefix` positions that are unchanged.

    Keys's cubic kernel (1981, a = -1/2) between the centres of patches, weights normalised at the border; for a smaller
    grid the kernel is widened by the ratio (antialias), so no old row is skipped.

    Attributes:
      prefix: positions before the first patch (1 for a class token).
      columns: patches in a row here. If None, the grid is square.
      columns_there: the same in the source run.
    """

    prefix: int = config_field(1, at_least=0)
    columns: int | None = config_field(None, at_least=1)
    columns_there: int | None = config_field(None, at_least=1)

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        before, after = self._grid(len(table), self.columns_there), self._grid(rows, self.columns)
        own, patches = table[: self.prefix], table[self.prefix :].reshape(*before, -1)
        resized = jax.image.resize(patches, (*after, table.shape[1]), "cubic").reshape(-1, table.shape[1])
        return jnp.concatenate([own, resized.astype(table.dtype)])

    def check(self, rows: int, there: int) -> None:
        for count, columns, field in ((rows, self.columns, "columns"), (there, self.columns_there, "columns_there")):
            if count <= self.prefix or math.prod(self._grid(count, columns)) != count - self.prefix:
                grid = "a square grid" if columns is None else f"rows of {columns}"
                raise UserError(
                    f"config.transfer.resample.{field}",
                    f"a grid of the {count - self.prefix} patches (of {count} positions, {self.prefix} are the prefix)",
                    grid,
                )

    def _grid(self, count: int, columns: int | None) -> tuple[int, int]:
        patches = count - self.prefix
        columns = math.isqrt(patches) if columns is None else columns
        return patches // columns, columns


@dataclasses.dataclass
class Transfer:
    """How `init_from` maps this run's parameters to the source run's.

    Attributes:
      prefixes: {prefix of paths here: prefix there, or None to initialise}. A prefix is one or more whole steps of a
        path, "" is the prefix of all paths; the longest one applies. Paths without a prefix are the same there.
      resample: resizes a table of learned positions to another image size or length. If None, another size is an error.
    """

    prefixes: dict[str, str | None] = dataclasses.field(default_factory=dict)
    resample: Resample | None = None

    def there(self, path: str) -> str | None:
        """The path in the source run; None for a parameter that is initialised."""
        prefix = max((p for p in self.prefixes if _under(path, p)), key=len, default=None)
        if prefix is None:
            return path
        other = self.prefixes[prefix]
        return None if other is None else "/".join(x for x in (other, path[len(prefix) :].strip("/")) if x)


class Stored(NamedTuple):
    """An array of a checkpoint: its path there, its shape and its dtype."""

    at: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


Variables = dict[str, dict[str, Stored]]  # arrays by collection ("params" and the model's own) and path


def stored_variables(arrays: dict[str, tuple[tuple[int, ...], str]]) -> Variables:
    """The model's arrays in a checkpoint, from the shapes and dtypes of all its arrays by their paths.

    Trained and frozen parameters are not distinguished; an average of one (`Experiment.ema`) replaces it.
    """
    found: Variables = {"params": {}}
    for kind in ("frozen", "params", "model_state", "ema"):
        start = f"weights/{kind}/"
        for at, (shape, dtype) in arrays.items():
            if at.startswith(start):
                collection, path = "params", at.removeprefix(start)
                if kind == "model_state":
                    collection, _, path = path.partition("/")
                found.setdefault(collection, {})[path] = Stored(at, tuple(shape), dtype)
    return found


class Row(NamedTuple):
    """What is done with one array.

    Attributes:
      action: one of ACTIONS; "new" arrays are initialised, "dropped" ones are not part of this run.
      path: here; for a dropped array, there.
      here, there: `here` is None for a dropped array, `there` for a new one.
    """

    action: str
    path: str
    here: Stored | None
    there: Stored | None

    @property
    def array(self) -> Stored:
        """The array here; for a dropped one, the array there."""
        array = self.here or self.there
        assert array is not None
        return array

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.array.shape)


def plan(transfer: Transfer, here: Variables, there: Variables, tables: Iterable[str], source: str) -> list[Row]:
    """What is done with every array of this run and of the source run.

    Args:
      tables: paths of parameters whose rows are positions, which `transfer.resample` applies to.
      source: the source run, as text for messages.

    Raises:
      UserError: a prefix that matches nothing, an array of another shape or dtype, or nothing to load at all.
    """
    _check_prefixes(transfer, here, there, source)
    tables, rows = set(tables), []
    for collection, arrays in here.items():
        others, used = there.get(collection, {}), set()
        for path, array in arrays.items():
            name = transfer.there(path)
            if name is None or name not in others:
                rows.append(Row("new", path, array, None))
                continue
            used.add(name)
            rows.append(
                Row(_action(transfer, path, array, others[name], path in tables, source), path, array, others[name])
            )
        rows += [Row("dropped", path, None, array) for path, array in others.items() if path not in used]
    rows += [Row("dropped", p, None, a) for c in there.keys() - here.keys() for p, a in there[c].items()]
    if not any(row.action in ("loaded", "resampled") for row in rows):
        wanted = next(iter(here["params"]))
        raise UserError(
            FIELD,
            "a run with parameters of this model",
            source,
            near_misses(wanted, there["params"]),
            hint=f"not one path is the same, such as {wanted}: set transfer.prefixes",
        )
    return rows


def _action(transfer: Transfer, path: str, here: Stored, there: Stored, is_table: bool, source: str) -> str:
    if (here.shape, here.dtype) == (there.shape, there.dtype):
        return "loaded"
    resizable = is_table and here.dtype == there.dtype and here.shape[1:] == there.shape[1:]
    if resizable and transfer.resample is not None:
        transfer.resample.check(here.shape[0], there.shape[0])
        return "resampled"
    fresh = f"transfer.prefixes={{{path.split('/')[0]!r}: None}} starts it fresh"
    fit = "transfer.resample=Bicubic() (images) or Linear1D() (text) fits it; " if resizable else ""
    raise UserError(FIELD, f"{path} to be {here}", f"{there} in {source}", hint=fit + fresh)


def _check_prefixes(transfer: Transfer, here: Variables, there: Variables, source: str) -> None:
    ours = [path for arrays in here.values() for path in arrays]
    theirs = [path for arrays in there.values() for path in arrays]
    for prefix, other in transfer.prefixes.items():
        field = f"config.transfer.prefixes[{prefix!r}]"
        if other is not None and not isinstance(other, str):
            raise UserError(field, "a prefix of paths, or None", other)
        for name, paths, whose in ((prefix, ours, "this model"), (other, theirs, source)):
            if name is not None and not any(_under(path, name) for path in paths):
                near = near_misses(name, _prefixes(paths)) or sorted({path.split("/")[0] for path in paths})
                raise UserError(field, f"a prefix of paths in {whose}", name, near)


def _under(path: str, prefix: str) -> bool:
    return not prefix or f"{path}/".startswith(f"{prefix}/")


def _prefixes(paths: Iterable[str]) -> set[str]:
    def of(path: str) -> Iterator[str]:
        steps = path.split("/")
        return ("/".join(steps[: i + 1]) for i in range(len(steps)))

    return {prefix for path in paths for prefix in of(path)}
