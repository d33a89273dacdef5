"""Files as they were when they were first looked at, and whether they still are."""

import dataclasses
import glob
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt32

from txjax.data.loading import disk_cache
from txjax.data.tfds.records import ChangedData
from txjax.types import UserError


@dataclasses.dataclass(frozen=True)
class FileState:
    """A file.

    Attributes:
      path: its path.
      size: its bytes.
      changed: the time of its last change, in nanoseconds.
    """

    path: str
    size: int
    changed: int

    @classmethod
    def of(cls, path: str) -> "FileState":
        """The state of a file now. Raises OSError if it can't be accessed."""
        stat = os.stat(path)
        return cls(path, stat.st_size, stat.st_mtime_ns)

    def check(self) -> None:
        """Raises ChangedData if the file is no longer as it was."""
        try:
            now = FileState.of(self.path)
        except OSError as error:
            raise ChangedData(f"{self.path} was there when the run began: {error.strerror}") from error
        if now != self:
            sizes = f"{self.size} bytes, now {now.size}" if now.size != self.size else "another time of change"
            raise ChangedData(f"{self.path} has changed since the run began ({sizes}); start again to index it anew")


def file_checksums(title: str, files: Sequence[FileState]) -> UInt32[np.ndarray, "N"]:
    """CRC-32 of the content of each file, from the cache.

    Args:
      title: what the files are of, for the terminal.
    """
    made_from = {"files": [dataclasses.astuple(file) for file in files]}

    def build(folder: Path) -> None:
        checksums = np.zeros(len(files), np.uint32)
        with disk_cache.progress(f"index of {title}", len(files)) as advance:
            for number, file in enumerate(files):
                checksums[number] = zlib.crc32(Path(file.path).read_bytes())
                advance(1)
        np.save(folder / "digests.npy", checksums)

    def load(folder: Path) -> UInt32[np.ndarray, "N"]:
        return np.load(folder / "digests.npy", allow_pickle=False)  # type: ignore[no-any-return]

    return disk_cache.get_or_build("rows", made_from, build, load)


def find_files(patterns: str | Sequence[str], field: str = "data.source") -> list[FileState]:
    """The files of one or several paths or patterns, sorted by path. Hidden ones are left out.

    Raises:
      UserError: there are none, or one is a folder.
    """
    listed = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    paths = sorted({path for pattern in listed for path in glob.glob(os.path.expanduser(pattern), recursive=True)})
    files = [path for path in paths if os.path.isfile(path)]
    if not files:
        hint = f"in {os.getcwd()}" if not paths else f"{paths[0]} is a folder"
        raise UserError(field, "a file, or a pattern of files", " ".join(listed), hint=hint)
    return [FileState.of(path) for path in files]
