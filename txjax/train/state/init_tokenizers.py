"""The tokenizers of the runs that a run starts from: a row of a table of tokens belongs to one token alone."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax import tree
from txjax.errors import UserError
from txjax.transfer.match import Row
from txjax.transfer.origin import FIELD
from txjax.transfer.words import Words

log = logging.getLogger("txjax")

AXIS = "vocab"
TARGET = "tokenizer"
SOURCE = "source_tokenizer"
SOURCE_TABLE = "embed_source"  # of a model whose source has a vocabulary of its own


def check_tokenizers(
    rows: Iterable[Row], axes: Mapping[str, tuple[str | None, ...]], data: Any, runs: Sequence[tuple[str, Path]]
) -> None:
    """Compares tokenizers with those of other runs, where a parameter with an axis of tokens is taken from them.

    A run without a tokenizer is not compared, nor one with several, such as one a task.

    Args:
      axes: the logical axes of the parameters here.
      data: the data set of this run.
      runs: the name and the workdir of each origin.

    Raises:
      UserError: the other run's tokenizer is another one.
    """
    ours = tree.to_json(data)
    compared = set()
    for row in rows:
        _check_words(row, runs)
        if row.here is None or row.there is None or row.source is None or AXIS not in axes.get(row.path, ()):
            continue
        sides = row.source, _side(row.path), _side(row.there.at)
        if sides in compared:
            continue
        compared.add(sides)
        name, workdir = runs[row.source]
        here = _tokenizer(ours, sides[1])
        there = _tokenizer(data_of(workdir), sides[2])
        if here is None or there is None or _same(here, there, name):
            continue
        got = _differences(here, there)
        hint = f"omit=({row.path.split('/')[0]!r},) of the origin leaves the array out"
        raise UserError(f"config.data.{sides[1]}", f"that of {name}, which {row.path} is taken from", got, hint=hint)


def _check_words(row: Row, runs: Sequence[tuple[str, Path]]) -> None:
    """The same for the tokenizer of a prompt's words, which are rows of that run's table."""
    for way in (way for _, way in row.resizes if isinstance(way, Words)):
        assert row.source is not None and row.there is not None
        name, workdir = runs[row.source]
        here = tree.to_json(way.tokenizer)
        there = _tokenizer(data_of(workdir), _side(row.there.at))
        if there is not None and not _same(here, there, name):
            raise UserError(f"{FIELD}.resize.tokenizer", f"that of {name}", _differences(here, there))


def _differences(here: Any, there: Any) -> str:
    """The classes of two tokenizers; if they are equal, their first fields that differ."""
    fields = tree.diff(there, here)
    shown = [(field, old, now) for field, old, now in fields if field == "class"] or fields[:4]
    return ", ".join(f"{field} {_shown(now)} (there {_shown(old)})" for field, old, now in shown)


def _shown(value: Any) -> str:
    return "missing" if value is ... else str(value).removeprefix("txjax.data.")


def _side(path: str) -> str:
    """The field of the tokenizer whose tokens an array has."""
    return SOURCE if SOURCE_TABLE in path.split("/") else TARGET


def data_of(workdir: Path) -> Any:
    """The JSON of a run's data set; None if its config has none, as after an import."""
    path = workdir / "config.json"
    return tree.read_json(path).get("data") if path.is_file() else None


def _tokenizer(data: Any, field: str) -> Any:
    """The JSON of the one tokenizer in that of a data set. A source without one of its own has the target's."""
    tokenizers = [*_values(data, field)] or [*_values(data, TARGET)]
    return tokenizers[0] if tokenizers and all(x == tokenizers[0] for x in tokenizers) else None


def _values(node: Any, field: str) -> Iterator[Any]:
    """All values of a field in a JSON tree, but None."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name != field:
                yield from _values(value, field)
            elif value is not None:
                yield value


def _same(ours: Any, theirs: Any, name: str) -> bool:
    """Whether two tokenizers are one: by their settings, or by their vocabularies, such as of a file that was moved."""
    if json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True):
        return True
    try:
        return bool(tree.from_json(ours).vocabulary_digest() == tree.from_json(theirs).vocabulary_digest())
    except UserError as error:
        log.warning("the tokenizer of %s can't be compared: %s", name, error)
        return True
