"""What is in files: rows by split, columns, broken rows, duplicates, examples."""

import collections
import dataclasses
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from txjax.data.sources.columns import Column
from txjax.data.sources.file_rows import Row
from txjax.data.sources.file_source import FileSource
from txjax.errors import UserError, require

PLACES = 20  # broken rows that are named
MOST_COUNTED = 100_000  # different values of a column that are counted
PIECE = 3  # words of a piece of a text; shorter texts are like no other
NUMBERS = ("whole", "number")
PERMUTATIONS = 128  # of MinHash
CountTokens = Callable[[Sequence[str]], int]


@dataclasses.dataclass(frozen=True)
class ColumnSurvey:
    """A column.

    Attributes:
      name, kind: of the column.
      different: the number of different values; at most `MOST_COUNTED`.
      empty: how many values are empty texts or lists, or missing.
      range: the least, the median and the greatest number, or length of a text (characters) or a list, as texts.
      common: the most common values with their numbers, of a column with few.
      tokens: of all texts of the column; None if it has none.
    """

    name: str
    kind: str
    different: int
    empty: int
    range: tuple[str, str, str]
    common: list[tuple[str, int]]
    tokens: int | None


@dataclasses.dataclass(frozen=True)
class Survey:
    """What is in the files of a source.

    Attributes:
      files, rows: their numbers.
      splits: the number of rows of each split.
      columns: by their order in the files.
      broken: the number of rows that can't be read.
      first_broken: messages of the first `PLACES`.
      duplicates: rows that are equal to an earlier one.
      duplicates_across: of these, how many are in another split than that.
      near_duplicates: texts that are like an earlier one; None if it wasn't asked.
      examples: the first rows, with the contents of files.
    """

    files: int
    rows: int
    splits: dict[str, int]
    columns: list[ColumnSurvey]
    broken: int
    first_broken: list[str]
    duplicates: int
    duplicates_across: int
    near_duplicates: int | None
    examples: list[Row]


def survey(source: FileSource, count_tokens: CountTokens, examples: int = 20, near: float | None = None) -> Survey:
    """Reads all rows of a source once.

    Args:
      count_tokens: gives the number of tokens of all of some texts.
      examples: how many rows are shown.
      near: the share of their pieces that two texts have in common to be alike, the Jaccard index, estimated by MinHash
        (Broder 1997); pieces are three words. If None, none are looked for.

    Raises:
      UserError: there are no files or rows, or the package that computes MinHash is missing.
    """
    if near is not None:
        require("datasketch", "datasketch", "--near", extra="data")
        if not 0 < near <= 1:
            raise UserError("--near", "a share above 0, at most 1", near)
    table = dataclasses.replace(source, corrupt="skip").table()
    columns = table.plain_columns
    values: dict[str, list[Any]] = {name: [] for name in columns}
    rows: list[Row] = []
    split_of = {number: name for name, numbers in table.splits.items() for number in numbers.tolist()}
    firsts: dict[str, int] = {}
    without = source.place_columns(table.rows)
    duplicates = []
    for number in table.usable.tolist():
        row = table.rows.row(number)
        first = firsts.setdefault(repr({name: value for name, value in row.items() if name not in without}), number)
        if first != number:
            duplicates.append((first, number))
        for name, column in columns.items():
            values[name].append(column.value(row).item() if column.kind in NUMBERS else row.get(name))
        if len(rows) < examples:
            rows.append(row)
    texts = [name for name, column in columns.items() if column.kind == "text"]
    return Survey(
        files=len(table.rows.files),
        rows=table.count,
        splits={name: len(numbers) for name, numbers in table.splits.items()},
        columns=[survey_column(column, values[name], count_tokens) for name, column in columns.items()],
        broken=len(table.broken),
        first_broken=list(table.broken.values())[:PLACES],
        duplicates=len(duplicates),
        duplicates_across=sum(split_of[first] != split_of[number] for first, number in duplicates),
        near_duplicates=None if near is None else count_alike([values[name] for name in texts], near),
        examples=rows,
    )


def survey_column(column: Column, values: list[Any], count_tokens: CountTokens) -> ColumnSurvey:
    """What the values of a column are."""
    filled = [value for value in values if value not in (None, "", [])]
    counts = collections.Counter[str]()
    if column.kind == "objects":
        filled = [[column.classes[label] for label in value["label"]] for value in filled]
        counts.update(name for names in filled for name in names)
    elif column.kind not in ("image", "audio"):
        counts.update(map(str, filled))
    sizes = [len(value) if hasattr(value, "__len__") else float(value) for value in filled]
    few = counts.most_common(5) if len(counts) <= 100 else []
    numbers = (min(sizes), statistics.median(sizes), max(sizes)) if sizes else ()
    shown = [f"{number:g}" for number in numbers] or ["", "", ""]
    return ColumnSurvey(
        column.name,
        column.kind,
        min(len(counts), MOST_COUNTED),
        len(values) - len(filled),
        (shown[0], shown[1], shown[2]),
        [(value[:20], count) for value, count in few],
        count_tokens(filled) if column.kind == "text" else None,
    )


def count_alike(columns: list[list[Any]], near: float) -> int:
    """How many rows have a text like that of an earlier row, in any of some columns of texts."""
    from datasketch import MinHash, MinHashLSH

    alike: set[int] = set()
    for texts in columns:
        index = MinHashLSH(threshold=0.8 * near, num_perm=PERMUTATIONS)  # of candidates, nearly all that are alike
        sketches: dict[int, MinHash] = {}
        for number, text in enumerate(texts):
            words = str(text).casefold().split()
            if len(words) < PIECE:
                continue
            pieces = {" ".join(words[i : i + PIECE]) for i in range(len(words) - PIECE + 1)}
            sketch = MinHash(num_perm=PERMUTATIONS)
            sketch.update_batch([piece.encode() for piece in sorted(pieces)])
            if any(sketch.jaccard(sketches[other]) >= near for other in index.query(sketch)):
                alike.add(number)
            index.insert(number, sketch)
            sketches[number] = sketch
    return len(alike)
