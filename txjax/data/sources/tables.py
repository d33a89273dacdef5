"""CSV and TSV: tables whose first row names the columns."""

import csv
import dataclasses

from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState
from txjax.data.sources.line_cuts import cut_quoted_lines
from txjax.data.sources.line_rows import LineRows, Parse
from txjax.errors import UserError
from txjax.types import config_field


@dataclasses.dataclass
class Tables(FileSource):
    """Tables of text as in RFC 4180: the first row names the columns; a value between quotes may have line breaks.

    Attributes:
      separator: what is between two values.
    """

    separator: str = config_field(",")

    def values_are_texts(self, rows: Rows) -> bool:
        return True

    def read_files(self, files: list[FileState]) -> Rows:
        return LineRows(files, "quoted lines", cut_quoted_lines, self.parser_of, header=True)

    def parser_of(self, path: str, head: str) -> Parse:
        """What makes a row of a text of a file whose first row is `head`."""
        names = self._values(head)
        if len(set(names)) < len(names) or "" in names:
            raise UserError("data.source", f"{path}: a first row that names each column once", head[:80])

        def parse(text: str) -> Row:
            values = self._values(text)
            if len(values) != len(names):
                raise ValueError(f"expected {len(names)} values, as in the first row, got {len(values)}")
            return dict(zip(names, values, strict=True))

        return parse

    def _values(self, text: str) -> list[str]:
        try:
            return next(csv.reader([text], delimiter=self.separator, strict=True), [])
        except csv.Error as error:
            raise ValueError(str(error)) from None
