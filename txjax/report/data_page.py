"""The HTML page of a look at files: rows by split, columns, faults, and examples with their pictures and sounds."""

import io
from typing import Any, NamedTuple

from txjax.data.sources.source_survey import Survey
from txjax.report.render import render

SIDE = 160  # of a picture at most, in pixels
MOST_SOUND = 1 << 20  # bytes of a recording that is in the page
MOST_TEXT = 300  # characters of a value


class Cell(NamedTuple):
    """A value of an example.

    Attributes:
      text: the value, cut.
      picture: the bytes of a PNG file; empty for none.
      recording: the bytes of a recording; empty for none.
    """

    text: str
    picture: bytes = b""
    recording: bytes = b""


def data_page(path: str, survey: Survey) -> str:
    """The HTML page of a survey.

    Args:
      path: of the files.
    """
    kinds = {column.name: column.kind for column in survey.columns}
    names = list(survey.examples[0]) if survey.examples else []
    faults = [
        ("broken rows", survey.broken, survey.first_broken),
        ("rows that are equal to an earlier one", survey.duplicates, []),
        ("of these, in another split", survey.duplicates_across, []),
    ]
    if survey.near_duplicates is not None:
        faults.append(("texts like an earlier one", survey.near_duplicates, []))
    return render(
        "data.html",
        path,
        f"{survey.rows:,} rows in {survey.files:,} files",
        rows=survey.rows,
        splits=survey.splits,
        faults=faults,
        columns=survey.columns,
        names=names,
        examples=[[cell(row.get(name), kinds.get(name, "")) for name in names] for row in survey.examples],
    )


def cell(value: Any, kind: str) -> Cell:
    """A value as the page shows it."""
    if not isinstance(value, bytes):
        return Cell("" if value is None else str(value)[:MOST_TEXT])
    text = f"{len(value):,} bytes"
    if kind == "image":
        return Cell(text, picture=thumbnail(value))
    return Cell(text, recording=value if value[:4] == b"RIFF" and len(value) <= MOST_SOUND else b"")


def thumbnail(content: bytes) -> bytes:
    """An image file as a small PNG; nothing, if it can't be read."""
    from PIL import Image  # an extra

    try:
        with Image.open(io.BytesIO(content)) as image:
            image.thumbnail((SIDE, SIDE))
            file = io.BytesIO()
            image.convert("RGB").save(file, "PNG")
    except (OSError, ValueError, Image.DecompressionBombError):
        return b""
    return file.getvalue()
