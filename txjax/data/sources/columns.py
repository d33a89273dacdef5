"""The columns of rows of files: of which kind each is, as a feature of TFDS, and its values as TFDS decodes them."""

import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from txjax.data.sources.file_rows import Row
from txjax.errors import UserError, join_names

SAMPLE = 1000  # rows by which the kinds of columns are known
MOST = 0.9  # the share of values that say the kind of a column; values of another kind are broken
# Kinds of values that are one kind of column together.
FAMILIES = (("text",), ("whole", "number"), ("texts", "empty"), ("wholes", "numbers", "empty"), ("image",))
NAMED_KINDS = ("class", "class number", "classes", "class numbers", "image", "images", "audio", "objects", "messages")
LISTS = ("texts", "wholes")  # columns whose values may be several classes
KINDS = ("text", "whole", "number", "texts", "wholes", "numbers", *NAMED_KINDS)


OBJECT_TYPES = {"bbox": np.float32, "label": np.int64, "area": np.float32, "is_crowd": np.bool_}


@dataclasses.dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
      name: its name.
      kind: one of `KINDS`; "texts", "wholes" and "numbers" are lists; a "class" has names as values, a
        "class number" the numbers of its classes, from 0, or -1 for none; "classes" and "class numbers" are lists of
        them; "objects" are the boxes of an image, "messages" the messages of a conversation.
      classes: the names of the classes.
    """

    name: str
    kind: str
    classes: tuple[str, ...] = ()

    def feature(self) -> Any:
        """The feature of TFDS that its values are of."""
        import tensorflow_datasets as tfds

        from txjax.data.tfds.audio_feature import Audio  # imports TFDS

        of_one = {"text": tfds.features.Text, "whole": lambda: np.int64, "number": lambda: np.float64}
        match self.kind:
            case "class" | "class number":
                return tfds.features.ClassLabel(names=list(self.classes))
            case "classes" | "class numbers":
                return tfds.features.Sequence(tfds.features.ClassLabel(names=list(self.classes)))
            case "image":
                return tfds.features.Image(shape=(None, None, 3), encoding_format=None)
            case "audio":
                return Audio(lazy_decode=True)
            case "objects":
                label = tfds.features.ClassLabel(names=list(self.classes))
                known = {"bbox": tfds.features.BBoxFeature(), "label": label}
                return tfds.features.Sequence(known | {"area": np.float32, "is_crowd": np.bool_})
            case "texts" | "wholes" | "numbers":
                return tfds.features.Sequence(of_one[self.kind.removesuffix("s")]())
            case "text":
                return tfds.features.Text()
            case "images":
                return tfds.features.Sequence(tfds.features.Image(shape=(None, None, 3), encoding_format=None))
            case "messages":
                return tfds.features.Sequence({"from": tfds.features.Text(), "value": tfds.features.Text()})
        return tfds.features.Scalar(of_one[self.kind]())

    def value(self, row: Row) -> Any:
        """The column's value of a row, as TFDS decodes it. Raises ValueError if it is missing or of another kind."""
        if self.name not in row:
            raise ValueError(f"no {self.name!r}; it has {join_names(list(row), 5) or 'nothing'}")
        value = row[self.name]
        try:
            return self._converted(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{self.name!r} is no {self.kind}: {value!r:.60}") from None

    def _converted(self, value: Any) -> Any:
        match self.kind:
            case "class":
                return np.int64(self.classes.index(class_name(value)))
            case "classes":
                return np.array([self.classes.index(class_name(item)) for item in _list(value)], np.int64)
            case "class numbers":
                return np.array([range(-1, len(self.classes)).index(item) - 1 for item in _list(value)], np.int64)
            case "class number":
                return np.int64(range(-1, len(self.classes)).index(value) - 1)
            case "text":
                return _text(value).encode()
            case "texts":
                return [_text(item).encode() for item in _list(value)]
            case "wholes" | "numbers":
                return np.array([_number(item) for item in _list(value)], np.int64 if self.kind == "wholes" else None)
            case "whole":
                return np.int64(_whole(value))
            case "number":
                return np.float64(_number(value))
            case "images":
                return [_file(content) for content in _list(value)]
            case "messages":
                return {name: [_text(message[name]).encode() for message in value] for name in ("from", "value")}
            case "objects":
                return {name: np.array(value[name], dtype) for name, dtype in OBJECT_TYPES.items()}
        return _file(value)


def _file(value: Any) -> bytes:
    """The content of a file, also as `datasets` keeps it, with its path."""
    content = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(content, bytes):
        raise TypeError
    return content


def _text(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise TypeError
    return value


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def class_name(value: Any) -> str:
    """The name of a class by a value of its column. Raises TypeError for what names none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or isinstance(value, float | list | dict) or value == "":
        raise TypeError
    return str(value)


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names of classes in alphabetical order, or in that of numbers."""
    names = list(names)
    return tuple(sorted(names, key=int if all(name.removeprefix("-").isdigit() for name in names) else str))


def infer_columns(rows: Iterable[Row], strings: bool, kinds: dict[str, str]) -> dict[str, Column]:
    """The columns of some rows. One of nothing but null values is left out, and one of other kinds of values, too.

    Args:
      strings: whether all values are texts, of which some stand for numbers, as in CSV.
      kinds: of columns whose kind is stated.
    """
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    columns = {}
    for name, column in values.items():
        kind = kinds.get(name) or (_kind_of_texts(column) if strings else _kind(column))
        if kind is not None:
            columns[name] = Column(name, kind)
    if unknown := set(kinds) - set(values):
        raise UserError("data.source.kinds", f"columns ({join_names(list(values), 20)})", sorted(unknown)[0])
    return columns


def _kind_of_texts(values: list[str]) -> str:
    filled = [value for value in values if value]
    numbers = [value for value in filled if _fits(value, _number)]
    if not filled or len(numbers) < MOST * len(filled):
        return "text"
    return "whole" if len(filled) == len(values) and all(_fits(value, int) for value in numbers) else "number"


def _fits(value: str, convert: Callable[[str], object]) -> bool:
    try:
        convert(value)
    except ValueError:
        return False
    return True


def _kind(values: list[Any]) -> str | None:
    counts = collections.Counter(_kind_of(value) for value in values if value is not None)
    for family in FAMILIES:
        if counts and sum(counts[kind] for kind in family) >= MOST * counts.total():
            return _joint_kind(set(counts) & set(family))
    return _joint_kind(set(counts))


def _joint_kind(kinds: set[str | None]) -> str | None:
    """The kind that values of these kinds have together, if there is one."""
    if kinds == {"whole", "number"}:
        return "number"
    if "texts" in kinds and kinds <= {"texts", "empty"} or kinds == {"empty"}:
        return "texts"
    if kinds <= {"wholes", "numbers", "empty"} and kinds:
        return "numbers" if "numbers" in kinds else "wholes"
    return kinds.pop() if len(kinds) == 1 else ("text" if kinds <= {"text", "whole", "number"} and kinds else None)


def _kind_of(value: Any) -> str | None:
    if isinstance(value, bytes):
        return "image" if value[:4] in (b"\x89PNG", b"\xff\xd8\xff\xe0", b"\xff\xd8\xff\xe1") else None
    if isinstance(value, list | tuple):
        kinds = {_kind_of(item) for item in value}
        if not kinds:
            return "empty"
        if kinds == {"whole", "number"}:
            kinds = {"number"}
        return f"{kinds.pop()}s" if len(kinds) == 1 and kinds <= {"text", "whole", "number"} else None
    for kind, types in (("whole", (bool, int, np.integer)), ("number", (float, np.floating)), ("text", (str,))):
        if isinstance(value, types):
            return kind
    return None
