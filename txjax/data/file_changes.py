"""The files that data sets read, with a hash of the rows of each, and what differs between two states of them."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from txjax import tree
from txjax.data.dataset import RecordDataset
from txjax.data.sources.file_source import FileSource, opened_files
from txjax.data.tfds.records import CorruptData
from txjax.data.tokenizers.trained_tokenizers import Trained
from txjax.errors import UserError, join_names

MOST_FILES = 1000  # of more files a hash of each folder is enough


def file_digests(node: Any) -> dict[str, str]:
    """The number of rows of each file that data sets and tokenizers in a tree read, and a hash of these, by its path.

    Of more than `MOST_FILES` files of a source, of each folder, by its path and a slash.
    """
    digests: dict[str, str] = {}
    for source in _file_sources(node):
        digests |= _source_digests(source)
    return digests


def describe_changes_since(before: Mapping[str, str], node: Any) -> str:
    """What happened to the files that a tree reads since `file_digests` of it was `before`; empty if nothing did.

    Raises:
      UserError: there are no files of a source any more.
    """
    now: dict[str, str] = {}
    for source in _file_sources(node):
        source.find()
        try:
            now |= _source_digests(source)
        except (UserError, CorruptData):
            return f"{source.label} can't be indexed any more"
    return describe_changes(before, now)


def describe_later_changes(node: Any) -> str:
    """What happened to the files that a tree reads since this process opened them; empty if nothing did.

    Names, sizes and times of change are compared, or versions: no file is read.

    Raises:
      UserError: there are no files of a source any more. RunError: where they lie can't be reached.
    """
    before: dict[str, str] = {}
    now: dict[str, str] = {}
    for source in _file_sources(node):
        if files := opened_files(source):
            before |= {file.path: f"{file.size} {file.changed}" for file in files}
            now |= {file.path: f"{file.size} {file.changed}" for file in source.find()}
    return describe_changes(before, now, lambda *_: "has changed")


def _file_sources(node: Any) -> Iterator[FileSource]:
    """The sources of files of the data sets and tokenizers in a tree."""
    for _, data in tree.walk(node):
        if isinstance(data, RecordDataset | Trained) and data.source is not None:
            source = data.record_split.source
            if isinstance(source, FileSource):
                yield source


def _source_digests(source: FileSource) -> dict[str, str]:
    rows = source.table().rows
    few = len(rows.files) <= MOST_FILES
    hashes: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for file, (path, count) in enumerate(zip(rows.files, np.diff(rows.firsts).tolist(), strict=True)):
        name = path if few else path.rpartition("/")[0] + "/"
        content = path.encode(errors="surrogateescape") if not few else b""
        hashes.setdefault(name, hashlib.blake2b(digest_size=8)).update(content + rows.file_digest(file))
        counts[name] = counts.get(name, 0) + count
    return {name: f"{counts[name]} rows, {hashes[name].hexdigest()}" for name in hashes}


def _describe_rows(before: str, now: str) -> str:
    """What happened to a file whose rows are others, by two values of `file_digests`."""
    old, rows = (str(state).partition(" rows")[0] for state in (before, now))
    return "has other rows" if old == rows else f"had {old} rows and has {rows}"


def describe_changes(
    before: Mapping[str, str], now: Mapping[str, str], describe: Callable[[str, str], str] = _describe_rows
) -> str:
    """What happened to files, by two results of `file_digests`; empty if nothing did.

    Args:
      before, now: what is known of each file, by its path.
      describe: what happened to a file, by two of their values that differ.
    """
    new = sorted(now.keys() - before.keys())
    changes = []
    for name in sorted(before.keys() - now.keys()):
        renamed = next((other for other in new if now[other] == before[name]), None)
        changes.append(f"{name} is gone" if renamed is None else f"{name} is {renamed} now")
        new = [other for other in new if other != renamed]
    changes += [f"{name} was added" for name in new]
    for name in sorted(before.keys() & now.keys()):
        if before[name] != now[name]:
            changes.append(f"{name} {describe(before[name], now[name])}")
    return join_names(changes, 3)
