"""Compressed files, unpacked once into the cache."""

import dataclasses
import gzip
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from txjax.data.loading import disk_cache
from txjax.data.sources.file_states import BUFFER, FileState, LocalFile
from txjax.errors import RunError, UserError, require


def unpack(files: Sequence[FileState]) -> list[FileState]:
    """The files, those that end with `.gz` or `.zst` unpacked in the cache.

    Raises:
      UserError: one is damaged, or there is no package that unpacks it.
    """
    return [_unpacked(file) if PurePath(file.path).suffix in OPENERS else file for file in files]


def _unpacked(file: FileState) -> FileState:
    path = PurePath(file.path)

    def build(folder: Path) -> None:
        try:
            with (
                file.open() as content,
                OPENERS[path.suffix](content) as packed,
                (folder / path.stem).open("wb") as target,
            ):
                shutil.copyfileobj(packed, target, BUFFER)
        except (UserError, RunError):
            raise
        except Exception as error:  # of zlib, gzip and zstandard, several kinds
            raise UserError("data.source", f"a whole {path.suffix} file", f"{path}: {error}") from error

    made_from = {"file": dataclasses.astuple(file)}
    return disk_cache.get_or_build("unpacked", made_from, build, lambda folder: LocalFile.of(str(folder / path.stem)))


def _open_gz(packed: BinaryIO) -> Any:
    return gzip.GzipFile(fileobj=packed)


def _open_zst(packed: BinaryIO) -> Any:
    require("zstandard", "zstandard", "data.source", extra="data")
    import zstandard

    return zstandard.open(packed, "rb")


OPENERS: dict[str, Callable[[BinaryIO], Any]] = {".gz": _open_gz, ".zst": _open_zst}
