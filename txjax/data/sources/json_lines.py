"""JSONL: a JSON object in each line."""

import dataclasses
import json
from typing import Any

from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState
from txjax.data.sources.line_cuts import cut_lines
from txjax.data.sources.line_rows import LineRows


@dataclasses.dataclass
class JSONLines(FileSource):
    """JSON lines, also compressed as `.gz` or `.zst`, which are unpacked once into the cache."""

    def read_files(self, files: list[FileState]) -> Rows:
        return LineRows(files, "lines", cut_lines, lambda path, head: parse_object)


def parse_object(text: str) -> Row:
    """The object of a line. Raises ValueError if it is none."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {text!r:.60}")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
