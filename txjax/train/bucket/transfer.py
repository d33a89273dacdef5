"""Files between a folder and a bucket, in pieces: each piece is an object with its digest."""

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from txjax.io.temporary import is_temporary
from txjax.train.bucket.client import Bucket
from txjax.train.bucket.commits import Files, Piece, digest_of, name_of

MOST_BYTES = 32 << 20  # of a piece
REQUESTS = 8  # at once
TRIES = 3  # for a piece whose bits differ
S = TypeVar("S")
T = TypeVar("T")


def files_of(folder: Path) -> dict[str, Path]:
    """The files of a workdir by their paths in it, but for locks and temporary files."""
    paths = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names if not is_temporary(name)]
    named = {path.relative_to(folder).as_posix(): path for path in sorted(paths)}
    return {name: path for name, path in named.items() if name != ".lock" and path.is_file() and not path.is_symlink()}


def _map(function: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """The results of a function, several calls at once. None begins after one has failed: each may wait its limit."""
    has_failed = threading.Event()

    def call(item: S) -> T:
        if has_failed.is_set():
            raise CancelledError
        try:
            return function(item)
        except BaseException:
            has_failed.set()
            raise

    with ThreadPoolExecutor(REQUESTS) as pool:
        return list(pool.map(call, items))  # raises the error of the first item that failed


# To the bucket


def upload(bucket: Bucket, number: int, paths: Mapping[str, Path], before: Files) -> Files:
    """Uploads files, as long as they are now; returns their pieces.

    What earlier pieces hold is not uploaded again: files that grow, such as a log, have their new bytes uploaded.

    Args:
      number: of the entry that will have the files.
      before: the pieces that the entry before it has of these files.
    """
    counter = itertools.count()

    def put(job: tuple[Path, int, int]) -> Piece:
        path, start, size = job
        content = _part(path, start, size)
        piece = Piece(f"files/{name_of(number)}/{next(counter):06d}", len(content), digest_of(content))
        bucket.write(piece.key, content)
        return piece

    files: Files = {}
    jobs: list[tuple[Path, int, int]] = []
    names: list[str] = []
    for name, path in paths.items():
        size = path.stat().st_size
        files[name] = _unchanged(path, size, before.get(name, []))
        start = sum(piece.size for piece in files[name])
        jobs += [(path, at, min(MOST_BYTES, size - at)) for at in range(start, size, MOST_BYTES)]
        names += [name] * (len(jobs) - len(names))
    for name, piece in zip(names, _map(put, jobs), strict=True):
        files[name].append(piece)
    return files


def _unchanged(path: Path, size: int, pieces: list[Piece]) -> list[Piece]:
    """The pieces with which the file still begins, but for small ones at their end, which are joined with what follows.

    So a file that grows by equal parts has as many pieces as its length has binary digits, and each byte is uploaded as
    often, too.
    """
    kept: list[Piece] = []
    start = 0
    for piece in pieces:
        if digest_of(_part(path, start, piece.size)) != piece.digest:
            break
        kept.append(piece)
        start += piece.size
    while kept and start < size and kept[-1].size < MOST_BYTES and kept[-1].size <= size - start:
        start -= kept.pop().size
    return kept


def _part(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)


# From the bucket


def download(bucket: Bucket, files: Files, folder: Path) -> list[str]:
    """Makes files of a folder equal to their pieces; those that are equal already are left as they are.

    Returns:
      The files with pieces that are lost, or whose bits were changed: they are written as they are, a lost piece as
      nothing, and are found damaged by whatever reads them.
    """
    damaged = _map(lambda name: _download(bucket, files[name], folder / name), files)
    return [name for name, is_damaged in zip(files, damaged, strict=True) if is_damaged]


def _download(bucket: Bucket, pieces: list[Piece], path: Path) -> bool:
    if path.is_file() and _is_equal(path, pieces):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    damaged = False
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("wb") as file:
        for piece in pieces:
            content = _piece(bucket, piece)
            damaged |= digest_of(content) != piece.digest
            file.write(content)
    os.replace(temporary, path)
    return damaged


def _is_equal(path: Path, pieces: list[Piece]) -> bool:
    ends = list(itertools.accumulate((piece.size for piece in pieces), initial=0))
    if path.stat().st_size != ends[-1]:
        return False
    starts = zip(ends, pieces, strict=False)
    return all(digest_of(_part(path, start, piece.size)) == piece.digest for start, piece in starts)


def _piece(bucket: Bucket, piece: Piece) -> bytes:
    """The content of a piece; after several tries whatever is there in its place."""
    content = b""
    for _ in range(TRIES):
        content = bucket.read(piece.key) or b""
        if digest_of(content) == piece.digest:
            break
    return content


def remove_others(folder: Path, files: Files) -> None:
    """Removes all files of a folder but these and its lock."""
    for name, path in files_of(folder).items():
        if name not in files:
            path.unlink()
