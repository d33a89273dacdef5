"""The classes of the runs that a run starts from: a row of a classifier's kernel belongs to one class alone."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from txjax import tree
from txjax.data import Dataset
from txjax.train.init_tokenizers import data_of
from txjax.transfer.match import Row
from txjax.types import UserError, join_names

log = logging.getLogger("txjax")

AXIS = "classes"


def check_labels(
    rows: Iterable[Row], axes: Mapping[str, tuple[str | None, ...]], data: Dataset, runs: Sequence[tuple[str, Path]]
) -> None:
    """Compares the names of classes with those of other runs, where a parameter with an axis of classes is taken.

    Data without named classes are not compared.

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
        here, there = data.class_names(), _names(name, data_of(workdir))
        if here is None or there is None or here == there:
            continue
        hint = f"omit=({row.path.split('/')[0]!r},) of the origin leaves the array out"
        expected = f"the classes of {name}, which {row.path} is taken from: {join_names(there)}"
        raise UserError("config.data", expected, join_names(here), hint=hint)


def _names(run: str, data: object) -> tuple[str, ...] | None:
    """The names of the classes of a run's data set, of its JSON; None, with a warning, if they can't be read."""
    if data is None:
        return None
    try:
        found = tree.from_json(data)
        return found.class_names() if isinstance(found, Dataset) else None
    except UserError as error:
        log.warning("the classes of %s can't be compared: %s", run, error)
        return None
