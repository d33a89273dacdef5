"""What is in the files that W&B writes in mode "offline"."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txjax.log.trackers.tracker import import_library

HEADER = 7  # bytes of a file before its records, and of a record before its data
BLOCK = 2**15


def stored_records(path: Path) -> Iterator[Any]:
    """The records of a file, as W&B's protocol buffers; the last one, if it is cut, is left out.

    The file is a log of LevelDB: blocks in which each piece of a record has a checksum, its length and its kind.
    """
    parse = import_library("wandb.proto.wandb_internal_pb2").Record.FromString
    data = path.read_bytes()
    start = HEADER
    record = b""
    while start + HEADER <= len(data):
        if BLOCK - start % BLOCK < HEADER:  # the end of a block, too short for a piece
            start += BLOCK - start % BLOCK
            continue
        length, kind = struct.unpack_from("<HB", data, start + 4)
        start += HEADER
        piece = data[start : start + length]
        start += length
        if len(piece) < length:
            return
        record = piece if kind in (1, 2) else record + piece
        if kind in (1, 4):  # a whole record, or its last piece
            with contextlib.suppress(ValueError):
                yield parse(record)


def stored_step(workdir: Path, identity: str) -> int:
    """The last step of a run in the files of its starts, 0 if there is none.

    A killed start leaves whole blocks alone: the rows of its last block are not there.
    """
    paths = (workdir / "wandb").glob(f"offline-run-*-{identity}/*.wandb")
    records = (record for path in paths for record in stored_records(path))
    return max((record.history.step.num for record in records if record.HasField("history")), default=0)
