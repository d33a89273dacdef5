"""Digests of a folder's files, which detect any changed bit; written last, they also mark the folder as complete.

A file's digest is the SHA-256 of the SHA-256 digests of its chunks of 4 MiB (of an empty file: of one that is empty),
in their order, after the name of this algorithm: several cores hash one large file (one level of Merkle, "A Digital
Signature Based on a Conventional Encryption Function", 1987).

A complete folder may get one file more, `added.json`: it counts once its digest is among the others.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from txjax.errors import RunError, UserError
from txjax.io.files import blocks, evict, flush, read_bytes, replace_text
from txjax.io.temporary import is_temporary

NAME = "digests.json"
ADDED = "added.json"
ALGORITHM = "sha256-4MiB"
CHUNK = 1 << 22  # bytes
# Errors of the file itself; any other is treated as temporary.
_OF_THE_FILE = {
    getattr(errno, name)
    for name in ("EIO", "EACCES", "EPERM", "ENOENT", "EISDIR", "ENOTDIR", "ELOOP", "ENXIO", "EBADMSG", "EUCLEAN")
    if hasattr(errno, name)
}


class Unavailable(RunError):
    """A file can't be read for now (too many open files, an unreachable server); whether it is damaged is unknown."""


def unavailable(error: OSError) -> Unavailable | None:
    """The `Unavailable` to raise for a temporary error; None for an error of the file itself."""
    if error.errno in _OF_THE_FILE:
        return None
    return Unavailable(f"{error.filename or 'a file'} cannot be read for now: {error.strerror or error}")


def _chunk_digest(chunk: tuple[Path, int]) -> bytes:
    path, start = chunk
    total = hashlib.sha256()
    for block in blocks(path, start, start + CHUNK):
        total.update(block)
    return total.digest()


def _digests(paths: Iterable[Path]) -> list[str]:
    """The digests of files, in their order."""
    totals = {path: hashlib.sha256() for path in paths}
    chunks = [(path, start) for path in totals for start in range(0, max(path.stat().st_size, 1), CHUNK)]
    with ThreadPoolExecutor() as pool:  # hashing releases the GIL
        for (path, _), part in zip(chunks, pool.map(_chunk_digest, chunks), strict=True):
            totals[path].update(part)
    return [f"{ALGORITHM}:{total.hexdigest()}" for total in totals.values()]


def _folder_digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in _files(folder) if p != folder / NAME and not is_temporary(p.name))
    return dict(zip((str(p.relative_to(folder)) for p in files), _digests(files), strict=True))


def _files(folder: Path) -> Iterator[Path]:
    """All files below a folder. Raises OSError for one that can't be accessed, which pathlib would silently skip."""

    def fail(error: OSError) -> None:
        raise error

    for parent, _, names in os.walk(folder, onerror=fail):
        yield from (path for name in names if _is_file(path := Path(parent, name)))


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _text(digests: dict[str, str]) -> str:
    return json.dumps(digests, indent=1, sort_keys=True) + "\n"


def commit(folder: Path) -> None:
    """Writes the digests of every file below `folder`; from then on it is complete, also after a power cut."""
    for path in _files(folder):
        flush(path)
    replace_text(folder / NAME, _text(_folder_digests(folder)))


def copy(source: Path, folder: Path) -> list[str]:
    """Copies a complete folder to a new place; from its last file on the copy is complete, too.

    Returns:
      The faults of the copy, as read back from the disk.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=lambda parent, names: [NAME] if Path(parent) == source else [])
    for path in _files(folder):
        flush(path)
    replace_text(folder / NAME, read_bytes(source / NAME).decode())
    return read_back(folder)


def add(folder: Path, text: str) -> list[str]:
    """Adds the file ADDED to a complete folder that has none; a crash in between leaves it without.

    Returns:
      The faults of the two files that were written, as read back from the disk.
    """
    written = json.loads(read_bytes(folder / NAME))
    replace_text(folder / ADDED, text)
    digests = _text(written | {ADDED: _digests([folder / ADDED])[0]})
    replace_text(folder / NAME, digests)
    for name in (ADDED, NAME):
        evict(folder / name)
    pairs = ((ADDED, text), (NAME, digests))
    return [f"{name} was changed" for name, content in pairs if read_bytes(folder / name) != content.encode()]


def added_text(folder: Path) -> str | None:
    """The text that was added to a folder; None if there is none."""
    complete = is_complete(folder) and ADDED in json.loads(read_bytes(folder / NAME))
    return read_bytes(folder / ADDED).decode() if complete else None


def of_all(folder: Path) -> str | None:
    """One digest of a folder's digests, and so of every bit at `commit`, whatever is added; None if there are none.

    Raises:
      Unavailable: they can't be read for now.
    """
    try:
        raw = read_bytes(folder / NAME)
    except OSError as error:
        if outage := unavailable(error):
            raise outage from error
        return None
    with contextlib.suppress(ValueError, TypeError, AttributeError):  # one that was changed is no folder's
        raw = _text({name: text for name, text in json.loads(raw).items() if name != ADDED}).encode()
    return hashlib.blake2b(raw, digest_size=16).hexdigest()


def is_complete(folder: Path) -> bool:
    """Whether `commit` finished for this folder. True if that can't be checked: `faults` reports the reason."""
    try:
        return _is_file(folder / NAME)
    except OSError:
        return True


def read_back(folder: Path) -> list[str]:
    """The `faults` of a folder as read from the disk, not from the page cache."""
    for path in _files(folder):
        evict(path)
    return faults(folder)


def faults(folder: Path) -> list[str]:
    """The faults of a folder, one line each; empty if every bit is as it was at `commit`.

    Raises:
      Unavailable: a file can't be read for now.
      UserError: all digests are of another algorithm.
    """
    try:
        return _faults(folder)
    except OSError as error:
        if outage := unavailable(error):
            raise outage from error
        name = os.path.relpath(error.filename, folder) if error.filename else "a file"
        return [f"{name} cannot be read: {error.strerror}"]


def _faults(folder: Path) -> list[str]:
    if not is_complete(folder):
        return [f"{NAME} is missing: the save did not finish"]
    raw = read_bytes(folder / NAME)
    try:
        recorded = {name: str(text) for name, text in json.loads(raw).items()}
        intact = raw == _text(recorded).encode()
    except (ValueError, AttributeError, RecursionError):
        intact = False
    if not intact:
        return [f"{NAME} was changed"]
    if recorded and not any(text.startswith(f"{ALGORITHM}:") for text in recorded.values()):
        algorithm = next(iter(recorded.values())).rpartition(":")[0] or "digests without a name"
        hint = "another version of txjax wrote them, which can read them"
        raise UserError(str(folder / NAME), f"digests by {ALGORITHM}", algorithm, hint=hint)
    digests = _folder_digests(folder)
    lost = [f"{name} is missing" for name in recorded if name not in digests]
    added = [f"{name} was added" for name in digests if name not in recorded and name != ADDED]
    changed = [f"{name} was changed" for name in recorded if name in digests and digests[name] != recorded[name]]
    return lost + added + changed
