"""Panels one below the other over one axis of time."""

import dataclasses
import textwrap
import warnings
from collections.abc import Callable, Sequence

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from txjax.report.inspection.style import DPI
from txjax.report.png import png
from txjax.report.theme import LIGHT, WORDS

NARROWEST = 5.0  # inches of the axis of time
WIDEST = 40.0
LEFT = 0.95  # inches of the names of panels


@dataclasses.dataclass(frozen=True)
class Panel:
    """A panel.

    Attributes:
      name: on its left.
      inches: its height.
      draw: draws it on axes whose x are seconds.
      lane: whether it belongs to the panel below, without a gap.
    """

    name: str
    inches: float
    draw: Callable[[Axes], None]
    lane: bool = False


def time_panels(title: str, seconds: float, panels: Sequence[Panel], inches: float = 0.0, left: float = LEFT) -> bytes:
    """A PNG of panels over the same seconds.

    Args:
      inches: the least width of the axis.
      left: of the axis, for names.
    """
    across = min(max(NARROWEST, 1.5 * seconds, inches), WIDEST)
    width = left + across + 0.25
    title = textwrap.fill(title, int(width / 0.084))
    gaps = [0.02 if panel.lane else 0.14 for panel in panels]
    gaps[-1] = 0.45  # the axis of time
    above = 0.3 + 0.17 * title.count("\n")
    height = above + sum(gaps) + sum(panel.inches for panel in panels)
    with rc_context(WORDS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # a text may have characters that the font lacks
        figure = Figure(figsize=(width, height), dpi=DPI, facecolor=LIGHT.paper)
        figure.text(0.06 / width, 1 - 0.08 / height, title, va="top", fontsize=10, fontweight="bold", color=LIGHT.ink)
        top = height - above
        for panel, gap in zip(panels, gaps, strict=True):
            axes = figure.add_axes((left / width, (top - panel.inches) / height, across / width, panel.inches / height))
            top -= panel.inches + gap
            axes.spines[:].set_visible(False)
            axes.tick_params(colors=LIGHT.faint, labelsize=8, length=0, pad=3)
            axes.set_xticks([])
            axes.set_yticks([])
            panel.draw(axes)
            axes.set_xlim(0, seconds)
            axes.text(
                -(left - 0.06) / across,
                0.5,
                panel.name,
                transform=axes.transAxes,
                va="center",
                fontsize=8,
                color=LIGHT.faint,
            )
        axes.xaxis.set_major_locator(MaxNLocator(max(4, int(across))))
        axes.tick_params(axis="x", length=3)
        axes.set_xlabel("seconds", fontsize=8, color=LIGHT.faint)
        return png(figure)
