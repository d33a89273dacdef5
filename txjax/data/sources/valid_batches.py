"""The record batches of an Arrow file: offsets that lead out of their buffers are found before a value is read."""

import bisect
import functools
import itertools
from collections.abc import Iterator
from typing import Any

from txjax.data.sources.file_states import LocalFile, status_time
from txjax.errors import UserError


class ValidBatches:
    """The record batches of a file that is mapped into memory, each validated when a row of it is first read.

    Arrow trusts the offsets of texts and lists, and the process would end at a wrong one. A batch is validated again
    when the file's status has changed (`st_ctime`), as each write changes it. Several threads may read.

    Attributes:
      schema: of the file.
    """

    def __init__(self, file: LocalFile):
        self._path = file.path
        self.schema, batches = _open(file)
        self._columns = [batch.columns for batch in batches]
        self._firsts = [0, *itertools.accumulate(batch.num_rows for batch in batches)]
        self._validated = status_time(file.path), bytearray(len(batches))  # 1: validated since then

    def __len__(self) -> int:
        return self._firsts[-1]

    def row(self, number: int) -> Iterator[Any]:
        """The values of a row, as Arrow's. Raises ValueError if its batch is damaged."""
        place = bisect.bisect_right(self._firsts, number) - 1
        time = status_time(self._path)
        if time != self._validated[0]:
            self._validated = time, bytearray(len(self._columns))
        validated = self._validated[1]
        if not validated[place]:
            for column in self._columns[place]:
                _validate(column)
            validated[place] = 1
        index = number - self._firsts[place]
        return (column[index] for column in self._columns[place])


def _validate(column: Any) -> None:
    """Raises ValueError for offsets that lead out of their buffers. Bytes that are no UTF-8 are for others to say."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
            raise


@functools.lru_cache(maxsize=64)
def _open(file: LocalFile) -> tuple[Any, list[Any]]:
    """The schema and the batches of an Arrow file, mapped into memory."""
    import pyarrow as pa

    try:
        content = pa.memory_map(file.path)
        try:
            table = pa.ipc.open_file(content).read_all()
        except pa.ArrowInvalid:
            table = pa.ipc.open_stream(pa.memory_map(file.path)).read_all()
        return table.schema, table.to_batches()
    except (pa.ArrowException, OSError) as error:
        raise UserError("data.source", "an Arrow file", f"{file.path}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """The first line of an error's text, or its kind."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
