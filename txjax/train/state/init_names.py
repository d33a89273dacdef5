"""The classes and languages of the runs that a run starts from: a row of such a parameter belongs to one name alone."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from txjax import tree
from txjax.data import Dataset
from txjax.data.class_names import Names, known_names, names_of_config
from txjax.errors import UserError, join_names
from txjax.objectives import languages_of
from txjax.train.state.init_tokenizers import data_of
from txjax.transfer.match import Row

log = logging.getLogger("txjax")

IMPORTED = Path("huggingface", "config.json")  # of a workdir that `txjax import` made
# The names of a data set, by the logical axis that has a row for each.
NAMED = {
    "classes": lambda data: data.class_names(),
    "languages": lambda data: next(iter(languages_of(data)), None),
}


def check_names(
    rows: Iterable[Row], axes: Mapping[str, tuple[str | None, ...]], data: Dataset, runs: Sequence[tuple[str, Path]]
) -> None:
    """Compares the names of classes and languages with other runs', where a parameter with their axis is taken.

    Names are compared without case. Names that are not known, or numbers, are not compared.

    Args:
      axes: the logical axes of the parameters here.
      data: the data set of this run.
      runs: the name and the workdir of each origin.

    Raises:
      UserError: the other run's classes or languages have other names, or another order.
    """
    compared: set[tuple[int, str]] = set()
    for row in rows:
        if row.here is None or row.there is None or row.source is None:
            continue
        for axis in {*NAMED} & {*axes.get(row.path, ())} - {axis for run, axis in compared if run == row.source}:
            compared.add((row.source, axis))
            name, workdir = runs[row.source]
            here = known_names(NAMED[axis](data))
            there = known_names(_names(axis, name, workdir))
            if here is None or there is None or [*map(str.casefold, here)] == [*map(str.casefold, there)]:
                continue
            hint = f"omit=({row.path.split('/')[0]!r},) of the origin leaves the array out"
            expected = f"the {axis} of {name}, which {row.path} is taken from: {join_names(there)}"
            raise UserError("config.data", expected, join_names(here), hint=hint)


def _names(axis: str, run: str, workdir: Path) -> Names | None:
    """The names of a run's data set, or the classes of an imported model; None, with a warning, if not readable."""
    if (workdir / IMPORTED).is_file():
        if axis != "classes":
            return None
        return names_of_config(tree.read_json(workdir / IMPORTED))
    data = data_of(workdir)
    if data is None:
        return None
    try:
        dataset = tree.from_json(data)
        return NAMED[axis](dataset) if isinstance(dataset, Dataset) else None
    except UserError as error:
        log.warning("the %s of %s can't be compared: %s", axis, run, error)
        return None
