"""JSON files that are one list of objects."""

import dataclasses
import json
import re
from collections.abc import Iterator

import numpy as np

from txjax.data.sources.file_blocks import FileChunks
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState
from txjax.data.sources.json_lines import parse_object
from txjax.data.sources.line_cuts import Ends
from txjax.data.sources.line_rows import LineRows
from txjax.errors import UserError

BEGIN = re.compile(r"\ufeff?\s*\[\s*")
NEXT = re.compile(r"\s*([,\]])\s*")


@dataclasses.dataclass
class JSONArrays(FileSource):
    """Files with one JSON list of objects each, also compressed. A record is an object."""

    def read_files(self, files: list[FileState]) -> Rows:
        return EntryRows(files, "entries", cut_entries, lambda path, head: parse_entry)


class EntryRows(LineRows):
    """The entries of lists, as `Rows`. A row of the index is an entry with what is between it and the one before."""

    def _position(self, file: int, indexed: int) -> str:
        return f"entry {indexed - int(self._begins[file]) + 1}"


def parse_entry(text: str) -> Row:
    """The object of an entry. Raises ValueError if it is none."""
    separator = BEGIN.match(text) or NEXT.match(text)
    return parse_object(text[separator.end() :] if separator else text)


def cut_entries(chunks: FileChunks) -> Iterator[Ends]:
    """A row is an entry of the list. Raises UserError, which names the file, unless it is one."""
    decoder = json.JSONDecoder()
    sizes: list[int] = []
    content = b"".join(chunk for _, chunk in chunks.map(bytes))
    try:
        text = content.decode("utf-8")
        if not (separator := BEGIN.match(text)):
            raise ValueError(f"it begins with {text[:20]!r}")
        begin = 0
        while not text.startswith("]", separator.end()) and separator[0].strip() != "]":
            _, end = decoder.raw_decode(text, separator.end())
            sizes.append(len(text[begin:end].encode()))
            begin = end
            if not (separator := NEXT.match(text, end)):
                raise json.JSONDecodeError("Expecting ',' delimiter", text, end)
    except (ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise UserError("data.source", "a file with a JSON list of objects", f"{chunks.name}: {reason}") from error
    yield np.cumsum(sizes, dtype=np.int64)
