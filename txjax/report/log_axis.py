"""Logarithmic axes whose labels do not overlap: round numbers over one or two decades, powers of ten over more."""

import math
from collections.abc import Sequence

from matplotlib.axis import Axis
from matplotlib.ticker import Locator, MaxNLocator, NullLocator

MOST = 8  # powers of ten with a label
SUBS: tuple[tuple[float, tuple[float, ...]], ...] = (  # multiples of a power of ten, for axes above a ratio of ends
    (1000.0, (1.0,)),
    (30.0, (1.0, 3.0)),
    (4.0, (1.0, 2.0, 5.0)),
    (0.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)),
)


def label_log_axis(axis: Axis) -> None:
    """Sets the ticks of an axis, which is logarithmic already, and their labels: `2e11`, `500`."""
    axis.set_major_locator(RoundNumbers())
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: log_label(value))


class RoundNumbers(Locator):
    """Ticks at the multiples of powers of ten that suit the ratio of the axis's ends."""

    def __call__(self) -> Sequence[float]:
        assert self.axis is not None
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """The ticks between two positive numbers; equally spaced where no two round numbers lie between them."""
        low, high = sorted((vmin, vmax))
        subs = next(subs for ratio, subs in SUBS if high / low > ratio)
        first = math.floor(math.log10(low))
        last = math.floor(math.log10(high))
        powers = range(first, last + 1, (last - first) // MOST + 1)
        ticks = [sub * 10.0**power for power in powers for sub in subs if low <= sub * 10.0**power <= high]
        return ticks if len(ticks) > 1 else [float(tick) for tick in MaxNLocator(4).tick_values(low, high)]


def log_label(value: float) -> str:
    """A tick in few characters: `0.02`, `500`, `2e11`."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"
