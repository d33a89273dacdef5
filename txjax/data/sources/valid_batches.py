"""The record batches of an Arrow file: offsets that lead out of their buffers are found before a value is read."""

import functools
from typing import Any

import numpy as np

from txjax.data.sources.file_states import LocalFile, status_time
from txjax.types import UserError


class ValidBatches:
    """The record batches of a file that is mapped into memory, each validated when a row of it is first read.

    Arrow trusts the offsets of texts and lists, and the process would end at a wrong one. A batch is validated again
    when the file's status has changed (`st_ctime`), as each write changes it. Several threads may read.

    Attributes:
      schema: of the file.
    """

    def __init__(self, file: LocalFile):
        self._path = file.path
        self.schema, self._batches = _open(file)
        self._ends = np.cumsum([batch.num_rows for batch in self._batches])
        self._validated = status_time(file.path), bytearray(len(self._batches))  # 1: validated since then

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def find(self, number: int) -> tuple[Any, int]:
        """The batch of a row, and the row's number in it. Raises ValueError if the batch is damaged."""
        place = int(np.searchsorted(self._ends, number, side="right"))
        batch = self._batches[place]
        time = status_time(self._path)
        if time != self._validated[0]:
            self._validated = time, bytearray(len(self._batches))
        validated = self._validated[1]
        if not validated[place]:
            for column in batch.columns:
                _validate(column)
            validated[place] = 1
        return batch, number - int(self._ends[place]) + batch.num_rows


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
