"""Files as a source of records: where they lie, with parts that are held out by a hash of each record."""

import collections
import dataclasses
import functools
import hashlib
import logging
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

import numpy as np
from jaxtyping import Int64

from txjax.data.sources.columns import LISTS, SAMPLE, Column, class_name, infer_columns, sort_names
from txjax.data.sources.file_paths import find_files
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_states import FileState
from txjax.data.sources.held_out import hold_out
from txjax.data.sources.record_source import Features, Records, RecordSource
from txjax.data.sources.split_names import ALIASES, SPLITS, split_name
from txjax.data.tfds.records import ChangedData, CorruptData
from txjax.data.tfds.tags import OF_LISTS
from txjax.errors import UserError, near_misses
from txjax.types import config_field

logger = logging.getLogger("txjax")
MOST_CLASSES = 10_000


@dataclasses.dataclass
class FileSource(RecordSource):
    """Base class of sources of files.

    The splits are `train`, `validation` and `test`. If every file's name begins with one of these (`valid`, `val` and
    `dev` are `validation`), it is the file's split. Otherwise `validation` and `test` have a share of the records each,
    `held_out`, and `train` the rest. Which ones these are follows from a hash of each record's content alone, so a
    record stays in its part when others come, and equal records are in one part.

    Attributes:
      paths: a path or a pattern such as `my/**/*.jsonl`, or several; also of `s3://` and `gs://`, and the URL of a
        file of `https://`.
      held_out: the share of each held-out part.
      kinds: the kinds of columns by name, where the first 1,000 rows don't show it: "text", "whole", "number", or
        lists of these, "texts", "wholes", "numbers".
      corrupt: what happens to a row that can't be read or whose columns are wrong: "refuse" is an error that names
        file and line; "skip" leaves it out, with a count in the log.
    """

    paths: str | tuple[str, ...] = ""
    held_out: float = config_field(0.1, at_least=0, below=0.5)
    kinds: dict[str, str] = config_field(factory=dict)
    corrupt: str = config_field("refuse", choices=("refuse", "skip"))

    def read_files(self, files: list[FileState]) -> Rows:
        """The rows of files."""
        raise NotImplementedError

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        """The columns whose kind the files say themselves."""
        return {}

    def split_of(self, path: str) -> str | None:
        """The split that the path of a file says, if it does."""
        return split_name(PurePath(path).name)

    def splits_of(self, rows: Rows) -> list[str | None]:
        """The split of each file, where its path says one."""
        return [self.split_of(path) for path in rows.files]

    def place_columns(self, rows: Rows) -> tuple[str, ...]:
        """The columns that say where a row is, and not what it is."""
        return ()

    def values_are_texts(self, rows: Rows) -> bool:
        """Whether all values are texts, of which some stand for numbers."""
        return False

    def find(self) -> list[FileState]:
        """The files, as they are now."""
        if not self.paths:
            raise UserError("data.source", "the path of files, or a pattern", None, hint="--config.data.source=PATH")
        return find_files(self.paths, "data.source")

    @property
    def label(self) -> str:
        return self.paths if isinstance(self.paths, str) else " ".join(self.paths)

    def features(self, classes: tuple[str, ...] = ()) -> Features:
        return {name: column.feature() for name, column in self.table().columns(classes).items()}

    def check(self, split: str, classes: tuple[str, ...] = ()) -> Features:
        self.table().numbers(split)
        return self.features(classes)

    def open(
        self, split: str, names: Iterable[str], encoded: Iterable[str] = (), classes: tuple[str, ...] = ()
    ) -> Records:
        table = self.table()
        columns = table.columns(classes)
        return FileRecords(self.label, table, split, [columns[name] for name in dict.fromkeys([*names, *encoded])])

    def table(self) -> "Table":
        """The rows of the files, as they are now, with their columns and splits."""
        files = self.find()
        settings = _settings(self)
        if settings not in _opened or _opened[settings][0] != files:
            _opened[settings] = files, Table(self, self.read_files(files))
        return _opened[settings][1]


def opened_files(source: FileSource) -> list[FileState]:
    """The files of a source as they were when this process opened them; empty if it has not."""
    return _opened.get(_settings(source), ([], None))[0]


def _settings(source: FileSource) -> str:
    return f"{type(source)} {source!r}"


_opened: dict[str, tuple[list[FileState], "Table"]] = {}  # by settings, so that a state of files is indexed once


class Table:
    """The rows of a source, with their columns and splits.

    Attributes:
      count: the number of rows.
    """

    def __init__(self, source: FileSource, rows: Rows):
        self.source = source
        self.rows = rows
        self.count = int(rows.firsts[-1])
        if not self.count:
            raise UserError("data.source", "files with rows", f"{source.label} without any")
        self._classes = functools.cache(self._class_column)

    @functools.cached_property
    def sample(self) -> list[Row]:
        """The first rows that can be read."""
        rows: list[Row] = []
        for number in range(min(SAMPLE, self.count)):
            try:
                rows.append(self.rows.row(number))
            except CorruptData as error:
                if self.source.corrupt == "refuse" or isinstance(error, ChangedData):
                    raise
        return rows

    @functools.cached_property
    def plain_columns(self) -> dict[str, Column]:
        """The columns by the first rows."""
        columns = infer_columns(self.sample, self.source.values_are_texts(self.rows), self.source.kinds)
        columns |= self.source.stated_columns(self.rows)
        if not columns:
            raise UserError("data.source", "rows with columns", self.rows.place(0))
        return columns

    @functools.cached_property
    def required_columns(self) -> list[Column]:
        """The columns without which a row is broken: whose kind is stated, and that half of the first rows have."""
        stated = {*self.source.kinds, *self.source.stated_columns(self.rows)}
        filled = collections.Counter(name for row in self.sample for name, value in row.items() if value is not None)
        names = stated | {name for name, count in filled.items() if 2 * count >= len(self.sample)}
        return [column for column in self.plain_columns.values() if column.name in names]

    def columns(self, classes: tuple[str, ...]) -> dict[str, Column]:
        """The columns, some of which are read as classes."""
        columns = self.plain_columns
        lists = {name for name, column in columns.items() if column.kind in LISTS and name + OF_LISTS in classes}
        return columns | {name: self._classes(name) for name in columns if name in lists or name in classes}

    def _class_column(self, name: str) -> Column:
        """A column as classes: its values in all splits, in alphabetical order, or in that of numbers."""
        kind = self.plain_columns[name].kind
        if kind in ("class", "class number", "class numbers", "image", "audio", "objects"):
            return self.plain_columns[name]
        are_lists = kind in LISTS
        names: set[str] = set()
        for number in self.usable.tolist():
            value: Any = self.rows.row(number).get(name)
            try:
                names.update(map(class_name, value if are_lists else [value]))
            except TypeError:
                expected = f"a class in the column {name!r}"
                raise UserError("data.label", expected, f"none in {self.rows.place(number)}") from None
            if len(names) > MOST_CLASSES:
                raise UserError("data.label", f"a column of at most {MOST_CLASSES:,} different values", name)
        return Column(name, "classes" if are_lists else "class", sort_names(names))

    @functools.cached_property
    def usable(self) -> Int64[np.ndarray, "N"]:
        """The numbers of the rows that are used: all, unless broken ones are skipped."""
        everything = np.arange(self.count, dtype=np.int64)
        if self.source.corrupt == "refuse":
            return everything
        if self.broken:
            text = "%d of %d rows of %s are broken and left out, the first: %s"
            logger.warning(text, len(self.broken), len(everything), self.source.label, next(iter(self.broken.values())))
        return np.delete(everything, list(self.broken))

    @functools.cached_property
    def broken(self) -> dict[int, str]:
        """Why rows can't be read, with their places, by their numbers."""
        faults = {}
        for number in range(self.count):
            try:
                row = self.rows.row(number)
                for column in self.required_columns:
                    column.value(row)
            except ChangedData:
                raise
            except CorruptData as error:
                faults[number] = str(error)
            except ValueError as error:
                faults[number] = f"{self.rows.place(number)}: {error}"
        return faults

    @functools.cached_property
    def splits(self) -> dict[str, Int64[np.ndarray, "N"]]:
        """The numbers of the rows of each split."""
        by_file = self.source.splits_of(self.rows)
        usable = self.usable
        if all(by_file):
            file = np.searchsorted(self.rows.firsts, usable, side="right") - 1
            names = np.array(by_file)[file]
            return {name: usable[names == name] for name in SPLITS if name in by_file}
        if not self.source.held_out:
            return {"train": usable, "validation": usable[:0], "test": usable[:0]}
        return hold_out(usable, self.rows.digests[usable], self.source.held_out)

    def numbers(self, split: str) -> Int64[np.ndarray, "N"]:
        """The numbers of the rows of a split, or of several with + between. Raises UserError if there is none."""
        names = [ALIASES.get(name.strip(), name.strip()) for name in split.split("+")]
        for name in names:
            if name not in self.splits:
                known = ", ".join(self.splits)
                expected = f"splits of {self.source.label} ({known}), or several with + between"
                raise UserError("data.split", expected, split, near_misses(name, list(self.splits)))
        numbers = np.sort(np.concatenate([self.splits[name] for name in names]))
        if not len(numbers):
            raise UserError("data.split", f"a part of {self.source.label} with records in it", split)
        return numbers


class FileRecords:
    """Some columns of the rows of a split, as `Records`."""

    def __init__(self, name: str, table: Table, split: str, columns: list[Column]):
        self.name = name
        self._table = table
        self._numbers = table.numbers(split)
        self._columns = columns

    @functools.cached_property
    def fingerprint(self) -> str:
        content = repr((self._table.rows.fingerprint, self._columns)).encode() + self._numbers.tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = int(self._numbers[index])
        row = self._table.rows.row(number)
        try:
            return {column.name: column.value(row) for column in self._columns}
        except ValueError as error:
            raise CorruptData(f"{self._table.rows.place(number)}: {error}") from error

    def read(self, start: int, stop: int) -> list[dict[str, Any]]:
        return [self[index] for index in range(start, stop)]

    def place(self, index: int) -> str:
        return self._table.rows.place(int(self._numbers[index]))
