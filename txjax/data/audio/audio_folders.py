"""A folder of audio files and JSON Lines that say of each what is heard in it."""

import collections
import dataclasses
import functools
import hashlib
import json
from pathlib import Path, PurePosixPath
from typing import Any

from txjax.data.audio.audio_files import SUFFIXES
from txjax.types import UserError

LABEL = "label"  # the field that is a class; texts in others are texts
HELD_OUT = {"test": 10, "validation": 10}  # percent of the rows, where the folder has one JSONL file
_FORM = 'a line such as {"audio": "a.wav", "text": "one two"}'
Row = dict[str, str | int | float]


@dataclasses.dataclass(frozen=True)
class AudioFolder:
    """The rows of a folder.

    Attributes:
      splits: the rows of each split, by its name, in the order of the file. All rows have the same fields, of the same
        types.
      audio: the field with the path of the audio file inside the folder.
      digest: a hash of all rows and of the sizes and times of change of all files, 16 hex digits.
    """

    splits: dict[str, tuple[Row, ...]]
    audio: str
    digest: str

    @property
    def kinds(self) -> dict[str, type]:
        """The type of each field: str, int or float."""
        row = next(iter(self.splits.values()))[0]
        return {field: type(value) for field, value in row.items()}

    @property
    def classes(self) -> list[str]:
        """The names of the classes of all splits, in order; none unless `LABEL` has texts or whole numbers."""
        labels = {row[LABEL] for rows in self.splits.values() for row in rows if LABEL in row}
        return [str(label) for label in sorted(labels) if not isinstance(label, float)]


@functools.cache
def list_audio(folder: Path) -> AudioFolder:
    """The rows of the JSONL files in a folder: each file is a split, and named like it.

    A process looks once, so that all of it sees one state of the folder. Of one file alone, a tenth of the rows is
    `test`, another one `validation`, and the rest `train`, by a hash of each path.

    The field whose first value ends in `.wav` or `.flac` is the path of the audio file. Texts and numbers are kept;
    fields with other values (lists, objects, null, booleans) are left out.

    Raises:
      UserError: there is no such folder, a line is no such row, or a file is missing; it names the line.
    """
    if not folder.is_dir():
        raise UserError("data.data_dir", "a folder with audio files and a JSONL file", str(folder))
    files = sorted(path for path in folder.glob("*.jsonl") if not path.name.startswith("."))
    if not files:
        raise UserError("data.data_dir", "a folder with a JSONL file for each split", str(folder), hint=_FORM)
    splits = _unify_numbers({file.stem: _read_rows(file) for file in files})
    first = next(iter(splits.values()))[0]
    audio = next((field for field, value in first.items() if _is_audio(value)), None)
    if audio is None:
        raise UserError(str(files[0]), f"a field with a file of {' or '.join(SUFFIXES)}", "none in line 1")
    for file, rows in zip(files, splits.values(), strict=True):
        for number, row in enumerate(rows, 1):
            _check_row(folder, f"{file} line {number}", row, first, audio)
    stats = [(folder / str(row[audio])).stat() for rows in splits.values() for row in rows]
    content = repr((splits, [(stat.st_size, stat.st_mtime_ns) for stat in stats]))
    digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    return AudioFolder(_held_out(next(iter(splits.values())), audio) if len(files) == 1 else splits, audio, digest)


def _read_rows(file: Path) -> tuple[Row, ...]:
    """The rows of a JSONL file. Raises UserError, which names the line, unless all are objects."""
    rows = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UserError(f"{file} line {number}", _FORM, line[:60], hint=str(error)) from error
        if not isinstance(values, dict):
            raise UserError(f"{file} line {number}", _FORM, line[:60])
        rows.append({key: value for key, value in values.items() if type(value) in (str, int, float)})
    if not rows:
        raise UserError(str(file), _FORM, "an empty file")
    return tuple(rows)


def _unify_numbers(splits: dict[str, tuple[Row, ...]]) -> dict[str, tuple[Row, ...]]:
    """The rows with floats in all rows where a field has one."""
    rows = [row for part in splits.values() for row in part]
    floats = {key for row in rows for key, value in row.items() if isinstance(value, float)}
    for row in rows:
        row.update({key: float(row[key]) for key in floats & set(row) if isinstance(row[key], int)})
    return splits


def _check_row(folder: Path, line: str, row: Row, first: Row, audio: str) -> None:
    """Raises UserError for a row whose fields or audio file aren't as those of the first row."""
    kinds, expected = ({key: type(value).__name__ for key, value in fields.items()} for fields in (row, first))
    if kinds != expected:
        raise UserError(line, f"the fields of the first line, {_list_fields(expected)}", _list_fields(kinds))
    path = PurePosixPath(str(row[audio]))
    if path.is_absolute() or ".." in path.parts:
        raise UserError(line, f"as {audio} a path inside the folder", str(path))
    if not _is_audio(row[audio]):
        raise UserError(line, f"as {audio} a file of {' or '.join(SUFFIXES)}", str(path))
    if not (folder / path).is_file():
        raise UserError(line, f"as {audio} a file that is in {folder}", str(path))


def _list_fields(kinds: dict[str, str]) -> str:
    return ", ".join(f"{key} ({kind})" for key, kind in sorted(kinds.items()))


def _is_audio(value: Any) -> bool:
    return isinstance(value, str) and value.lower().endswith(SUFFIXES)


def _held_out(rows: tuple[Row, ...], audio: str) -> dict[str, tuple[Row, ...]]:
    """The splits of rows without splits: percentiles of the hash of each path."""
    splits = collections.defaultdict(list)
    bounds = [(HELD_OUT["test"], "test"), (sum(HELD_OUT.values()), "validation"), (100, "train")]
    ranked = sorted(rows, key=lambda row: hashlib.sha256(str(row[audio]).encode()).digest())
    for rank, row in enumerate(ranked):
        name = next(name for percent, name in bounds if rank * 100 < percent * len(rows))
        splits[name].append(row)
    order = {id(row): number for number, row in enumerate(rows)}
    return {
        name: tuple(sorted(splits[name], key=lambda row: order[id(row)]))
        for name in ("train", *HELD_OUT)
        if splits[name]
    }
