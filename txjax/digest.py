"""A folder's digests: written last, so that they are also its commit mark; any changed bit is noticed."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from txjax.files import evict, flush, replace_text

NAME = "digests.json"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p != folder / NAME)
    with ThreadPoolExecutor() as pool:  # hashing leaves the interpreter's lock
        return dict(zip((str(p.relative_to(folder)) for p in files), pool.map(_digest, files), strict=True))


def _text(digests: dict[str, str]) -> str:
    return json.dumps(digests, indent=1, sort_keys=True) + "\n"


def commit(folder: Path) -> None:
    """Writes the digests of every file below `folder`; from now on it is complete, also after a power cut."""
    for path in folder.rglob("*"):
        if path.is_file():
            flush(path)
    replace_text(folder / NAME, _text(_digests(folder)))


def is_complete(folder: Path) -> bool:
    """Whether `commit` finished for this folder."""
    return (folder / NAME).is_file()


def read_back(folder: Path) -> list[str]:
    """The `faults` of a folder as the disk has it, not the system's copies of what was just written."""
    for path in folder.rglob("*"):
        if path.is_file():
            evict(path)
    return faults(folder)


def faults(folder: Path) -> list[str]:
    """What is wrong with a folder, a line each; empty if every bit is as it was at `commit`."""
    if not is_complete(folder):
        return [f"{NAME} is missing: the save did not finish"]
    raw = (folder / NAME).read_bytes()
    try:
        recorded = json.loads(raw)
        intact = raw == _text(recorded).encode()
    except (ValueError, TypeError):
        intact = False
    if not intact:
        return [f"{NAME} was changed"]
    found = _digests(folder)
    lost = [f"{name} is missing" for name in recorded if name not in found]
    added = [f"{name} was added" for name in found if name not in recorded]
    changed = [f"{name} was changed" for name in recorded if name in found and found[name] != recorded[name]]
    return lost + added + changed
