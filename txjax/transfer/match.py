"""Matches the arrays of a run with those of the steps that it starts from, by their paths."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from jaxtyping import Array, Shaped

from txjax.errors import UserError, near_misses
from txjax.transfer.origin import FIELD, From, is_under
from txjax.transfer.resize import ResizeAxis

ACTIONS = ("loaded", "resized", "new", "dropped")
_EXAMPLES = {
    "positions": "Bicubic() (images) or Linear1D() (text)",
    "offsets": "Bilinear()",
    "layers": "Every(2), First(2) or Last(2)",
}


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
    stored: Variables = {"params": {}}
    for kind in ("frozen", "params", "model_state", "ema"):
        start = f"weights/{kind}/"
        for at, (shape, dtype) in arrays.items():
            if at.startswith(start):
                collection = "params"
                path = at.removeprefix(start)
                if kind == "model_state":
                    collection, _, path = path.partition("/")
                stored.setdefault(collection, {})[path] = Stored(at, tuple(shape), dtype)
    return stored


class Source(NamedTuple):
    """An origin, and what its step has.

    Attributes:
      field: the origin's dotted path in the config, for messages.
      name: its run and step, for messages; two origins of one step have the same.
    """

    field: str
    origin: From
    name: str
    arrays: Variables

    def claim(self, collection: str, path: str) -> Stored | None:
        """The array that it gives for a path here; None if it gives none. State here may be a parameter there."""
        name = self.origin.path_there(path)
        if name is None:
            return None
        return self.arrays.get(collection, {}).get(name) or self.arrays["params"].get(name)


class Row(NamedTuple):
    """What is done with one array.

    Attributes:
      action: one of ACTIONS; "new" arrays are initialised, "dropped" ones are not part of this run.
      path: here; for a dropped array, there.
      here, there: `here` is None for a dropped array, `there` for a new one.
      source: the number of the origin that `there` is of; None for a new array.
      resizes: the numbers of the axes that are brought to another size, and how.
    """

    action: str
    path: str
    here: Stored | None
    there: Stored | None
    source: int | None = None
    resizes: tuple[tuple[int, ResizeAxis], ...] = ()

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

    def resize(self, array: Shaped[Array, "..."]) -> Shaped[Array, "..."]:
        """The array there with the shape of the array here."""
        for number, way in self.resizes:
            array = way.resize_axis(array, number, self.array.shape[number])
        return array


def match(sources: Sequence[Source], here: Variables, axes: Mapping[str, tuple[str | None, ...]]) -> list[Row]:
    """What is done with every array of this run, and of the origins below their prefixes.

    Args:
      axes: the logical axes of parameters by path, which origins resize by.

    Raises:
      UserError: a prefix that matches nothing, an array of another shape or dtype, one that two origins give, or an
        origin of which nothing is taken.
    """
    for source in sources:
        _check_prefixes(source, here)
    rows = []
    taken = set()
    for collection, arrays in here.items():
        for path, array in arrays.items():
            claims = [(i, stored) for i, source in enumerate(sources) if (stored := source.claim(collection, path))]
            if len(claims) > 1:
                both = " and ".join(
                    f"{sources[i].field} ({stored.at} of {sources[i].name})" for i, stored in claims[:2]
                )
                hint = f"omit=({path.split('/')[0]!r},) of one leaves it to the other"
                raise UserError(FIELD, f"one origin of {path}", both, hint=hint)
            if not claims:
                rows.append(Row("new", path, array, None))
            for i, stored in claims:
                names = axes.get(path, ()) if collection == "params" else ()
                resizes = _resizes(sources[i], path, array, stored, names)
                rows.append(Row("resized" if resizes else "loaded", path, array, stored, i, resizes))
                taken.add((sources[i].name, stored.at))
    for i, source in enumerate(sources):
        if not any(row.source == i for row in rows):
            _nothing_taken(source, here)
    for i, source in enumerate(sources):
        for arrays in source.arrays.values():
            for path, array in arrays.items():
                if is_under(path, source.origin.there) and (source.name, array.at) not in taken:
                    taken.add((source.name, array.at))
                    rows.append(Row("dropped", path, None, array, i))
    return rows


def _resizes(
    source: Source, path: str, here: Stored, there: Stored, names: tuple[str | None, ...]
) -> tuple[tuple[int, ResizeAxis], ...]:
    """Which axes are resized, and how. Raises UserError if the result is not the array here."""
    ways = {way.axis: way for way in source.origin.resize}
    resizes = []
    same = here.dtype == there.dtype and len(here.shape) == len(there.shape)
    unnamed = (None,) * len(here.shape)
    for number, (rows, count, name) in enumerate(zip(here.shape, there.shape, names or unnamed, strict=False)):
        if same and name in ways:
            try:
                ways[name].check(rows, count)
            except UserError as error:
                raise error.with_path(f"{source.field}.resize", "resize") from None
        if name in ways and not ways[name].keeps(rows, count):
            resizes.append((number, ways[name]))
        elif rows != count:
            same = False
    if same:
        return tuple(resizes)
    different = [n for a, b, n in zip(here.shape, there.shape, names, strict=False) if a != b] or [None]
    fit = all(n in _EXAMPLES for n in different) and here.dtype == there.dtype
    ways_to_fit = " and ".join(_EXAMPLES[n] for n in different if n in _EXAMPLES)
    hint = f"resize={ways_to_fit} fits it; " * fit + f"omit=({path.split('/')[0]!r},) leaves it out"
    raise UserError(source.field, f"{path} to be {here}", f"{there} in {source.name}", hint=hint)


def _check_prefixes(source: Source, here: Variables) -> None:
    ours = [path for arrays in here.values() for path in arrays]
    theirs = [path for arrays in source.arrays.values() for path in arrays]
    origin = source.origin
    for field, prefix, paths, whose in (
        ("here", origin.here, ours, "this model"),
        ("there", origin.there, theirs, source.name),
        *((f"omit[{i}]", prefix, ours, "this model") for i, prefix in enumerate(origin.omit)),
    ):
        if not any(is_under(path, prefix) for path in paths):
            near = near_misses(prefix, _prefixes(paths)) or sorted({path.split("/")[0] for path in paths})
            raise UserError(f"{source.field}.{field}", f"a prefix of paths in {whose}", prefix, near)


def _nothing_taken(source: Source, here: Variables) -> None:
    wanted = next((path for path in here["params"] if source.origin.path_there(path)), next(iter(here["params"])))
    raise UserError(
        source.field,
        "a run with parameters of this model",
        source.name,
        near_misses(wanted, source.arrays["params"]),
        hint=f"not one path is the same, such as {wanted}: set From(run=..., here=..., there=...)",
    )


def _prefixes(paths: Iterable[str]) -> set[str]:
    def prefixes_of(path: str) -> Iterator[str]:
        steps = path.split("/")
        return ("/".join(steps[: i + 1]) for i in range(len(steps)))

    return {prefix for path in paths for prefix in prefixes_of(path)}
