"""The scale of an axis: positions of values, and tick labels that do not overlap."""

import math
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator

from txjax.report.sweep_axes import is_number

WIDE = 8.0  # axes with at least this ratio of values are logarithmic
FEW = 8  # values that are ticks themselves; more have round numbers as ticks
CHARACTER = 0.022  # of the length of a panel's axis
UPWARDS = 20  # characters of a line of an upright label
LINE = 44  # characters of all labels of an axis in a row


class Scale:
    """Positions of values on an axis: numbers linear, or logarithmic over a wide range; other values by order."""

    def __init__(self, values: Sequence[Any]):
        self.numeric = all(map(is_number, values))
        self.kinds = [] if self.numeric else sorted({str(value) for value in values})
        numbers = [float(value) for value in values] if self.numeric else []
        self.log = self.numeric and min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE
        positions = [self(value) for value in values]
        self.low = min(positions)
        self.high = max(positions)
        self.values = sorted(set(numbers)) if self.numeric else self.kinds

    def __call__(self, value: Any) -> float:
        """The position of a value."""
        if not self.numeric:
            return float(self.kinds.index(str(value)))
        return math.log10(value) if self.log else float(value)

    def share(self, value: Any) -> float:
        """The position of a value, scaled from 0 (lowest) to 1 (highest)."""
        return (self(value) - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def marks(self, apart: float = 0.05) -> list[tuple[str, float]]:
        """Labels of values with their scaled positions: both ends, and values between that are at least `apart`."""
        return self._marks(self.values, apart, 0.0)

    def label(self, axes: Axes) -> None:
        """Sets the ticks of the x axis: its values, or round numbers where it has many. Many words are upright."""
        many = len(self.values) > FEW
        marks = self._marks(self._round_numbers() if self.numeric and many else self.values, 0.02, CHARACTER)
        positions = [self.low + share * (self.high - self.low) for _, share in marks]
        if self.numeric:
            axes.set_xticks(positions, [text for text, _ in marks])
        elif many:
            axes.set_xticks(positions, [wrap_label(text, UPWARDS) for text, _ in marks], rotation=90, fontsize=7)
        else:
            room = max(LINE // len(marks), 6)
            axes.set_xticks(positions, [wrap_label(text, room) for text, _ in marks])

    def _marks(self, ticks: Sequence[Any], apart: float, character: float) -> list[tuple[str, float]]:
        """Labels and scaled positions of ticks, the ends first, as far as they don't overlap.

        Args:
          apart: the least distance between two labels, of the axis's length.
          character: the length of a character along the axis, of the axis's length.
        """
        if not self.numeric:
            return [(kind, self.share(kind)) for kind in self.kinds]
        chosen: list[tuple[str, float]] = []
        for value in dict.fromkeys([ticks[0], ticks[-1], *ticks]):
            text = f"{value:.4g}"
            share = self.share(value)
            if all(abs(share - at) >= apart + character * (len(text) + len(other)) / 2 for other, at in chosen):
                chosen.append((text, share))
        return sorted(chosen, key=lambda mark: mark[1])

    def _round_numbers(self) -> list[float]:
        """Round numbers between the ends: 1, 2, 5 of each decade, or equally spaced; of few, with the ends."""
        low = float(self.values[0])
        high = float(self.values[-1])
        locator = LogLocator(subs=(1, 2, 5), numticks=20) if self.log else MaxNLocator(5)
        ticks = [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]
        return ticks if len(ticks) > 2 else [low, *ticks, high]


def wrap_label(text: str, room: int) -> str:
    """A label in lines of about so many characters, broken after brackets, commas and underscores where it can be."""
    pieces = re.split(r"(?<=[(,_=])", text)
    lines = [""]
    for part in (part for piece in pieces for part in textwrap.wrap(piece, room, drop_whitespace=False)):
        if lines[-1] and len(lines[-1]) + len(part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip() for line in lines)
