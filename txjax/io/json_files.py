"""JSON files of runs and of others: bounded in size and depth, with each key once, so that no file is a trap."""

import codecs
import json
from pathlib import Path
from typing import Any

from txjax.io.files import read_bytes

MOST_BYTES = 64 << 20
MOST_DEPTH = 100  # objects and lists inside each other
MOST_DIGITS = 300  # of a whole number; a float has at most 308 before its point


def load_json(path: Path) -> Any:
    """The value in a JSON file.

    Raises:
      OSError: the file can't be read.
      ValueError: it has more than `MOST_BYTES` bytes, is no JSON, has a key twice in an object, or is nested deeper
        than `MOST_DEPTH`.
    """
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
    content = read_bytes(path)
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        value = json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except RecursionError:
        raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels") from None
    if _depth_exceeds(value, MOST_DEPTH):
        raise ValueError(f"it is nested deeper than {MOST_DEPTH} levels")
    return value


def _whole(digits: str) -> int | float:
    """A whole number; beyond the largest float infinity, as `1e999` is, so that every number can be calculated with."""
    return int(digits) if len(digits) <= MOST_DIGITS else float(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return values


def _depth_exceeds(value: Any, most: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
