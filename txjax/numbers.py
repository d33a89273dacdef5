"""Formatting of numbers for tables, axes and messages."""

import math
from typing import Any

_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def compact(value: float | str) -> str:
    """A value in short form: four digits, from 10,000 on three with a unit (`12.3k`); texts are unchanged."""
    if isinstance(value, str):
        return value
    if not math.isfinite(value) or abs(value) < 10_000:
        return f"{value:,.0f}" if 1000 <= abs(value) < 10_000 else f"{value:.4g}"
    short = float(f"{value:.3g}")
    size, unit = next(pair for pair in _UNITS if abs(short) >= pair[0])
    return f"{short / size:g}{unit}"


def full(value: Any) -> str:
    """A value for a table: a float with five digits, a large number with all digits before the point."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.5g}"


def round_measured(value: Any) -> str:
    """A measured value for a table: three digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return full(value)
    short = float(f"{value:.3g}")
    return f"{short:,.0f}" if abs(short) >= 1000 else f"{short:g}"


def five_digits(value: Any) -> str:
    """A parameter of a scaling law: a float with five digits, a large one with an exponent; an interval by its ends."""
    if isinstance(value, list | tuple):
        return " to ".join(map(five_digits, value))
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def byte_size(count: float) -> str:
    """Bytes in the largest unit that fits, up to GiB."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def duration(seconds: float) -> str:
    """A time: milliseconds below one second, seconds, from a minute on minutes, hours or days in three digits."""
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    for least, size, unit in ((172_800, 86_400, "days"), (3600, 3600, "h"), (60, 60, "min")):
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3f} s"
