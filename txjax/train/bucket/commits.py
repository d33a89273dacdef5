"""The entries of a workdir in a bucket: numbered objects, each created if absent, of which the last one counts.

Each entry is the whole state of the workdir. Its number is the lock, the order of commits and the fence in one, since
only one of two writers creates it (docs/reliability.md, "Object stores").
"""

import dataclasses
import hashlib
import json
import logging
import secrets
from pathlib import PurePosixPath
from typing import Any, NamedTuple, Self

from txjax.errors import RunError
from txjax.train.bucket.client import Bucket

FOLDER = "log"
log = logging.getLogger("txjax")


class Piece(NamedTuple):
    """A part of a file, an object of its own.

    Attributes:
      key: of the object.
      size: in bytes.
      digest: BLAKE2b of its content, 16 bytes as hexadecimal digits.
    """

    key: str
    size: int
    digest: str


Files = dict[str, list[Piece]]  # by path in the workdir


@dataclasses.dataclass(frozen=True)
class Entry:
    """The state of a workdir.

    Attributes:
      number: from 1 on.
      owner: the number of the entry by which the run that wrote it took the workdir.
      ended: whether that run has left the workdir.
      who: the process, in words.
      place: the lock of its folder in a cache, if that lock shows whether it lives (`lease.place_of`).
      files: all files of the workdir.
      nonce: no other writer has the same content.
    """

    number: int
    owner: int
    ended: bool
    who: str
    place: str | None
    files: Files
    nonce: str = dataclasses.field(default_factory=lambda: secrets.token_hex(8))

    def after(self, files: Files | None = None, ended: bool = False) -> Self:
        """The next entry of the same run."""
        changes: dict[str, Any] = {"files": self.files if files is None else files, "ended": ended}
        return dataclasses.replace(self, number=self.number + 1, nonce=secrets.token_hex(8), **changes)

    def keys(self) -> set[str]:
        """The objects that it needs."""
        return {piece.key for pieces in self.files.values() for piece in pieces}

    def to_bytes(self) -> bytes:
        """JSON, and a line with its digest."""
        text = json.dumps(dataclasses.asdict(self), separators=(",", ":")).encode()
        return text + b"\n" + digest_of(text).encode() + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Self | None:
        """The inverse of `to_bytes`; None where a bit was changed, or the content is of another kind."""
        text, _, digest = content.partition(b"\n")
        if digest != digest_of(text).encode() + b"\n":
            return None
        try:
            fields = json.loads(text)
            files = {path: [Piece(*piece) for piece in pieces] for path, pieces in fields["files"].items()}
            entry = cls(**fields | {"files": files})
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None
        return entry if all(map(_is_inside, files)) else None


def _is_inside(name: str) -> bool:
    """Whether a path stays in the folder that it is relative to."""
    return not PurePosixPath(name).is_absolute() and not {"", ".", ".."} & set(name.split("/"))


def digest_of(content: bytes) -> str:
    """BLAKE2b, 16 bytes as hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def name_of(number: int) -> str:
    """A number as it is in keys, so that lists are in its order."""
    return f"{number:08d}"


def newest(bucket: Bucket) -> tuple[int, Entry | None]:
    """The number of the last entry, and the last undamaged entry: the same, but for one whose bits were changed.

    Raises:
      RunError: all are damaged.
    """
    names = [name for name in bucket.names(FOLDER) if name.isdecimal()]
    for name in reversed(names):
        if (entry := read(bucket, int(name))) is not None:
            return int(names[-1]), entry
        log.warning("%s/%s/%s is damaged; looking at the one before", bucket.url, FOLDER, name)
    if names:
        raise RunError(f"{bucket.url}/{FOLDER}: all entries are damaged")
    return 0, None


def read(bucket: Bucket, number: int, tries: int = 3) -> Entry | None:
    """An entry; None if there is none, or if its bits were changed, at several tries."""
    for _ in range(tries):
        content = bucket.read(f"{FOLDER}/{name_of(number)}")
        entry = None if content is None else Entry.from_bytes(content)
        if content is None or entry is not None:
            return entry
    return None


def append(bucket: Bucket, entry: Entry) -> bool:
    """Creates an entry. Returns False if another writer has created the one of its number."""
    return bucket.create(f"{FOLDER}/{name_of(entry.number)}", entry.to_bytes())
