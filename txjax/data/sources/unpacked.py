"""Compressed files, unpacked once into the cache."""

import dataclasses
import functools
import gzip
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import BinaryIO

from txjax.data.loading import disk_cache
from txjax.data.sources.file_states import BUFFER, FileState, LocalFile
from txjax.errors import RunError, UserError, require


def unpack(files: Sequence[FileState]) -> list[FileState]:
    """The files, those that end with `.gz` or `.zst` unpacked in the cache.

    Raises:
      UserError: one is damaged, or there is no package that unpacks it.
    """
    return [_unpacked(file) if PurePath(file.path).suffix in UNPACKERS else file for file in files]


def _unpacked(file: FileState) -> FileState:
    path = PurePath(file.path)

    def unpack_into(folder: Path, file: FileState) -> None:
        try:
            with file.open() as packed, (folder / path.stem).open("wb") as target:
                UNPACKERS[path.suffix](packed, target)
        except (UserError, RunError):
            raise
        except Exception as error:  # of zlib, gzip and zstandard, several kinds
            raise UserError("data.source", f"a whole {path.suffix} file", f"{path}: {error}") from error

    def build(folder: Path) -> None:
        file.verified(functools.partial(unpack_into, folder))

    made_from = {"file": dataclasses.astuple(file)}
    return disk_cache.get_or_build("unpacked", made_from, build, lambda folder: LocalFile.of(str(folder / path.stem)))


def _unpack_gz(packed: BinaryIO, target: BinaryIO) -> None:
    with gzip.GzipFile(fileobj=packed) as content:
        shutil.copyfileobj(content, target, BUFFER)


def _unpack_zst(packed: BinaryIO, target: BinaryIO) -> None:
    """Raises EOFError where the last frame is cut, which the library's own files take for their end."""
    require("zstandard", "zstandard", "data.source", extra="data")
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    while rest := packed.read(BUFFER):
        while rest:
            frame = decompressor.decompressobj() if frame.eof else frame
            target.write(frame.decompress(rest))
            rest = frame.unused_data
    if not frame.eof:
        raise EOFError("it ends inside of a frame")


UNPACKERS: dict[str, Callable[[BinaryIO, BinaryIO], None]] = {".gz": _unpack_gz, ".zst": _unpack_zst}
