"""Text files: blocks of whole lines."""

import dataclasses

from txjax.data.sources.file_rows import Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState
from txjax.data.sources.line_cuts import cut_blocks
from txjax.data.sources.line_rows import LineRows
from txjax.types import config_field


@dataclasses.dataclass
class TextFiles(FileSource):
    """Files of text. A record is the next whole lines of a file that have at least `block` bytes, as the column `text`.

    Attributes:
      block: bytes of a record at least; a file's last one may have fewer.
    """

    block: int = config_field(4096, at_least=1)

    def read_files(self, files: list[FileState]) -> Rows:
        cut = cut_blocks(self.block)
        return LineRows(files, f"blocks of {self.block}", cut, lambda path, head: lambda text: {"text": text})
