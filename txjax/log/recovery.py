"""Truncating metrics.jsonl to the rows of a checkpoint: each row once, none missing, no unreported change.

A checkpoint's record holds the number and the digest of the rows up to it. If the file doesn't match, its good rows
are kept, the file as it was found is copied to `metrics.jsonl.damaged-N`, and a warning says what was lost. Without a
checkpoint no row is good for the run that begins: the file is copied to `metrics.jsonl.before-N`.
"""

import bisect
import dataclasses
import hashlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from txjax.io.files import replace_bytes

log = logging.getLogger("txjax")
StepOf = Callable[[bytes], int | None]


class Extent:
    """The number of rows of a log, and their digest."""

    def __init__(self, text: bytes):
        self.rows = text.count(b"\n")
        self._digest = hashlib.blake2b(text, digest_size=16)

    def add(self, line: bytes) -> None:
        """Adds one row."""
        self.rows += 1
        self._digest.update(line)

    def as_record(self) -> dict[str, int | str]:
        """The JSON value for a checkpoint's record."""
        return {"rows": self.rows, "digest": self._digest.hexdigest()}


@dataclasses.dataclass(frozen=True)
class Kept:
    """A truncated log.

    Attributes:
      text: the kept rows.
      last: their last step, -1 if there are none.
      reached: the last step before truncation, 0 if there was none.
    """

    text: bytes
    last: int
    reached: int


def cut_back(path: Path, step: int, extent: Mapping[str, Any] | None, step_of: StepOf) -> Kept:
    """Truncates the file to the rows of steps <= `step`, atomically.

    Args:
      step: the step of the checkpoint that the run resumes from; 0 for a run from scratch, which begins a new file:
        the old one is kept as `metrics.jsonl.before-N`.
      extent: number and digest of the rows up to it, from its record; None if there is no checkpoint, or if its record
        is too old to have them.
      step_of: returns the step of a complete row, None for any other line.
    """
    text = path.read_bytes() if path.exists() else b""
    lines = text.splitlines(keepends=True)
    reached = _last(lines, step_of, 0)
    if extent is None and not step:
        kept = b""
        if text:
            rows = len(_good(lines, reached, step_of))
            aside = _set_aside(path, "before", text)
            log.warning("%s has %d rows and there is no checkpoint: it is kept as %s", path, rows, aside)
    elif extent is None:
        good = _good(lines, step, step_of)
        kept = b"".join(good)
        if lines[: len(good)] != good:
            _warn(path, text, f"{len(good)} rows up to step {step} are good and are kept")
    else:
        kept = _verified_rows(path, lines, step, extent, step_of)
    if kept != text:
        replace_bytes(path, kept)
    return Kept(kept, _last(kept.splitlines(keepends=True), step_of, -1), reached)


def spare_log(path: Path, step: int, step_of: StepOf) -> None:
    """Copies the log to `metrics.jsonl.until-N` if it reached this step: it is about to be truncated further."""
    text = path.read_bytes() if path.exists() else b""
    if _last(text.splitlines(keepends=True), step_of, 0) >= step:
        log.warning("%s with its rows up to step %d is kept as %s", path, step, _set_aside(path, "until", text))


def _verified_rows(path: Path, lines: Sequence[bytes], step: int, extent: Mapping[str, Any], step_of: StepOf) -> bytes:
    """The rows of `extent`: from the log, else from a copy of it, else the good rows that are left."""
    count = int(extent["rows"])
    for source in (None, *sorted(path.parent.glob(f"{path.name}.*"))):
        rows = b"".join((lines if source is None else source.read_bytes().splitlines(keepends=True))[:count])
        if Extent(rows).as_record() == extent:
            if source is not None:
                log.warning("%s: the rows up to step %d are those of %s", path, step, source.name)
            return rows
    good = _good(lines, step, step_of)
    if len(good) < count:
        message = f"{len(good)} of the {count} rows up to step {step} are good and are kept"
    else:
        message = f"the rows up to step {step} are not as they were written, and are kept as they are"
    _warn(path, b"".join(lines), message)
    return b"".join(good)


def _good(lines: Sequence[bytes], step: int, step_of: StepOf) -> list[bytes]:
    """The rows up to a step; if some are out of order, the longest subsequence in order."""
    rows = [(at, line) for line in lines if (at := step_of(line)) is not None and at <= step]
    # The longest increasing subsequence: `ends[n]` is the index of the smallest step that ends one of n + 1 rows.
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for i, (at, _) in enumerate(rows):
        n = bisect.bisect_left(tails, at)
        before.append(ends[n - 1] if n else -1)
        tails[n : n + 1], ends[n : n + 1] = [at], [i]
    kept: list[bytes] = []
    index = ends[-1] if ends else -1
    while index >= 0:
        kept.append(rows[index][1])
        index = before[index]
    return kept[::-1]


def _last(lines: Sequence[bytes], step_of: StepOf, default: int) -> int:
    """The step of the last row."""
    return next((step for line in reversed(lines) if (step := step_of(line)) is not None), default)


def _warn(path: Path, text: bytes, message: str) -> None:
    if text:
        aside = _set_aside(path, "damaged", text)
        log.warning("%s is damaged: %s; the damaged file is kept as %s", path, message, aside)
    else:
        log.warning("%s is missing or empty: %s", path, message)


def _set_aside(path: Path, word: str, text: bytes) -> str:
    """Writes the text next to the log under a new name, and returns the name."""
    names = (path.with_name(f"{path.name}.{word}-{n}") for n in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    replace_bytes(aside, text)
    return aside.name
