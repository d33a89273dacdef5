"""A hash of the content of each row in files of text, by which parts are held out.

It is taken when it is first asked for, and is in the folder `rows/KEY` under the cache directory, as `digests.npy`. KEY
is a hash of the files' content, wherever they lie.
"""

import itertools
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt32

from txjax.data.loading import disk_cache
from txjax.data.sources.file_blocks import CHUNK, CheckedFile
from txjax.data.sources.line_index import RowIndex

LAYOUT = 1  # version of the file


def open_row_digests(kind: str, index: RowIndex, files: Sequence[CheckedFile]) -> UInt32[np.ndarray, "N"]:
    """CRC-32 of each row, from the cache.

    Args:
      kind: the way in which the files are cut into rows.
      index: of the files.
      files: their content.
    """
    contents = [index.file_digest(file).hex() for file in range(len(files))]
    made_from = {"layout": LAYOUT, "kind": kind, "contents": contents}

    def build(folder: Path) -> None:
        digests = np.zeros(len(index.starts), np.uint32)
        first = 0
        with disk_cache.progress(f"hashes of the rows of {files[0].path}", len(files)) as advance:
            for file, count in zip(files, index.counts.tolist(), strict=True):
                rows = slice(first, first + count)
                digests[rows] = hash_rows(file, index.starts[rows], index.ends[rows])
                first += count
                advance(1)
        np.save(folder / "digests.npy", digests)

    def load(folder: Path) -> UInt32[np.ndarray, "N"]:
        return np.load(folder / "digests.npy", allow_pickle=False)  # type: ignore[no-any-return]

    return disk_cache.get_or_build("rows", made_from, build, load)


def hash_rows(
    file: CheckedFile, starts: Int64[np.ndarray, "N"], ends: Int64[np.ndarray, "N"]
) -> UInt32[np.ndarray, "N"]:
    """CRC-32 of the rows of a file that begin and end at these bytes."""
    digests = np.zeros(len(starts), np.uint32)
    firsts = np.flatnonzero(np.diff(starts // CHUNK, prepend=-1))  # of the rows that begin in a chunk
    for first, end in itertools.pairwise([*firsts.tolist(), len(starts)]):
        begin = int(starts[first])
        content = file.read(begin, int(ends[end - 1]))
        spans = zip((starts[first:end] - begin).tolist(), (ends[first:end] - begin).tolist(), strict=True)
        digests[first:end] = [zlib.crc32(content[start:stop]) for start, stop in spans]
    return digests
