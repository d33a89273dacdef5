"""The looks of all plots: colours on light and on dark screens, and the style of axes."""

import dataclasses
from typing import Any

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

WORDS: dict[Any, Any] = {"text.parse_math": False}  # a `$` in a name starts no formula


@dataclasses.dataclass(frozen=True)
class Theme:
    """Colours of background, text and lines, and matplotlib's colormap for ranks, best to worst."""

    paper: str
    ink: str
    faint: str
    grid: str
    lines: tuple[str, ...]
    ranks: str


LIGHT = Theme(
    "#ffffff",
    "#1f2933",
    "#6b7785",
    "#e6e9ee",
    ("#2563d9", "#e8590c", "#0b9a8d", "#9440c9", "#c98a00", "#d6336c", "#5c7a29", "#51606f"),
    "viridis",
)
DARK = Theme(
    "#171b21",
    "#e6eaf0",
    "#93a0b0",
    "#2b323c",
    ("#6ea8fe", "#ff9257", "#3fd0c0", "#c48cf0", "#f2c14e", "#ff7eb0", "#a9d06a", "#a8b5c4"),
    "viridis_r",
)


def shade(theme: Theme, rank: int, count: int) -> str:
    """The colour of the line with this rank (0 is the best, or the first) among `count`."""
    return to_hex(colormaps[theme.ranks](rank / count))


def style_axes(axes: Axes, theme: Theme, title: str = "", size: float = 11) -> None:
    """Applies the common style: a left-aligned title (of this font size), a pale grid, one spine."""
    axes.set_title(title, loc="left", fontsize=size, fontweight="bold", color=theme.ink, pad=10)
    axes.set_facecolor(theme.paper)
    axes.grid(color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(theme.faint)
    axes.tick_params(which="both", colors=theme.faint, labelsize=9, length=0, pad=6)
