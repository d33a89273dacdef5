"""What a run takes over from another one: which parameters, under which paths, and positions for another size."""

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
    """Base of all ways to fit a table of learned positions to another number of them."""

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        """The table for `rows` positions, in its own dtype."""
        raise NotImplementedError

    def check(self, rows: int, there: int) -> None:
        """Raises UserError where a table of `there` rows can't become one of `rows`."""


@dataclasses.dataclass
class Linear1D(Resample):
    """Positions along a line, such as a text's: linear interpolation between their centres.

    The middles of both tables coincide. A shorter table is made by averaging (antialias), so no old row is skipped.
    """

    def __call__(self, table: Float[Array, "P D"], rows: int) -> Float[Array, "{rows} D"]:
        return jax.image.resize(table, (rows, table.shape[1]), "linear").astype(table.dtype)


@dataclasses.dataclass
class Bicubic(Resample):
    """Positions of image patches, row by row, after `prefix` positions that stay as they are.

    Keys's cubic kernel (1981, a = -1/2) between the centres of patches, weights normalised at the border; for a smaller
    grid the kernel is widened by the ratio (antialias), so no old row is skipped.

    Attributes:
      prefix: positions before the first patch (1 for a class token).
      columns: patches in a row here; None = a square grid.
      columns_there: the same in the run that is taken over.
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
    """How `init_from` finds this run's parameters in the other one.

    Attributes:
      prefixes: {prefix of paths here: prefix there, or None to start fresh}. A prefix is one or more whole steps of a
        path, "" is that of all paths; the longest one holds. Paths without any are the same there.
      resample: what fits a table of learned positions to another image size or length; None refuses another size.
    """

    prefixes: dict[str, str | None] = dataclasses.field(default_factory=dict)
    resample: Resample | None = None

    def there(self, path: str) -> str | None:
        """The path in the other run; None for a fresh start."""
        prefix = max((p for p in self.prefixes if _under(path, p)), key=len, default=None)
        if prefix is None:
            return path
        other = self.prefixes[prefix]
        return None if other is None else "/".join(x for x in (other, path[len(prefix) :].strip("/")) if x)


class Stored(NamedTuple):
    """An array of a checkpoint: where it lies there, and what it is."""

    at: str
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


Variables = dict[str, dict[str, Stored]]  # arrays by collection ("params" and the model's own) and path


def stored_variables(arrays: dict[str, tuple[tuple[int, ...], str]]) -> Variables:
    """The model's arrays in a checkpoint, from the shapes and dtypes of all its arrays by their paths.

    It is one to us whether a parameter was trained or frozen; an average of it (`Experiment.ema`) takes its place.
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
    """What becomes of one array.

    Attributes:
      fate: one of FATES; "new" starts fresh, for what is "dropped" this run has no place.
      path: here, and for what is dropped there.
      here, there: None for what is dropped, or new.
    """

    action: str
    path: str
    here: Stored | None
    there: Stored | None

    @property
    def array(self) -> Stored:
        """The array here; of what is dropped, that there."""
        array = self.here or self.there
        assert array is not None
        return array

    @property
    def size(self) -> int:
        """How many numbers that is."""
        return math.prod(self.array.shape)


def plan(transfer: Transfer, here: Variables, there: Variables, tables: Iterable[str], source: str) -> list[Row]:
    """What becomes of every array of this run and of the other one.

    Args:
      tables: paths of parameters whose rows are positions: what `transfer.resample` is for.
      source: the other run, in the words of messages.

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
                Row(_fate(transfer, path, array, others[name], path in tables, source), path, array, others[name])
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


def _fate(transfer: Transfer, path: str, here: Stored, there: Stored, is_table: bool, source: str) -> str:
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
