"""The classes of the runs that a run starts from: a row of a classifier's kernel belongs to one class alone."""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from txjax import tree
from txjax.data import Dataset
from txjax.train.init_tokenizers import data_of
from txjax.transfer.match import Row
from txjax.types import UserError, join_names

log = logging.getLogger("txjax")

AXIS = "classes"
IMPORTED = Path("huggingface", "config.json")  # of a workdir that `txjax import` made
Names = tuple[str, ...]


def check_labels(
    rows: Iterable[Row], axes: Mapping[str, tuple[str | None, ...]], data: Dataset, runs: Sequence[tuple[str, Path]]
) -> None:
    """Compares the names of classes with those of other runs, where a parameter with an axis of classes is taken.

    Names are compared without case. Classes without names, or with numbers as names, are not compared.

    Args:
      axes: the logical axes of the parameters here.
      data: the data set of this run.
      runs: the name and the workdir of each origin.

    Raises:
      UserError: the other run's classes have other names, or another order.
    """
    compared = set()
    for row in rows:
        taken = row.here is not None and row.there is not None and row.source is not None
        if not taken or row.source in compared or AXIS not in axes.get(row.path, ()):
            continue
        assert row.source is not None
        compared.add(row.source)
        name, workdir = runs[row.source]
        here, there = _known(data.class_names()), _known(_names(name, workdir))
        if here is None or there is None or [*map(str.casefold, here)] == [*map(str.casefold, there)]:
            continue
        hint = f"omit=({row.path.split('/')[0]!r},) of the origin leaves the array out"
        expected = f"the classes of {name}, which {row.path} is taken from: {join_names(there)}"
        raise UserError("config.data", expected, join_names(here), hint=hint)


def _known(names: Names | None) -> Names | None:
    """The names; None if they are numbers alone, as of a data set or a Hugging Face folder that has no names."""
    numbered = names is None or all(re.fullmatch(r"(LABEL_)?\d+", name) for name in names)
    return None if numbered else names


def _names(run: str, workdir: Path) -> Names | None:
    """The names of the classes of a run's data set, or of an imported model; None, with a warning, if not readable."""
    if (workdir / IMPORTED).is_file():
        named = tree.read_json(workdir / IMPORTED).get("id2label")
        named = named if isinstance(named, dict) else {}
        numbers = [number for number in named if str(number).isdigit()]
        return tuple(str(named[number]) for number in sorted(numbers, key=int))
    data = data_of(workdir)
    if data is None:
        return None
    try:
        found = tree.from_json(data)
        return found.class_names() if isinstance(found, Dataset) else None
    except UserError as error:
        log.warning("the classes of %s can't be compared: %s", run, error)
        return None
