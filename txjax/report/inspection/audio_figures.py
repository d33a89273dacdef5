"""Pictures of audio: spectrograms with the symbols of CTC at their frames, with masks, and with maps over them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.axes import Axes

from txjax.report.inspection.audio_views import AudioView, Span
from txjax.report.inspection.style import DPI, Area, heat_colors
from txjax.report.inspection.time_panels import Panel, time_panels
from txjax.report.theme import LIGHT

ENERGY = "magma"  # of spectrograms
MASKED = "#c3cad4"
TICKS = (500, 1000, 2000, 4000, 8000, 16000)  # Hz
LETTER = 0.08  # inches of a character of a symbol
SPACE = 0.03  # inches between symbols
HIGH = 1.3  # inches of a spectrogram


def spectrogram_picture(title: str, view: AudioView) -> bytes:
    """The spectrogram, and above it the symbols of each path, joined to their frames."""
    lanes = [_lane(name, spans, view.end, number) for number, (name, spans) in enumerate(view.paths.items())]
    inches = 1.3 * max((float(symbol_inches(spans).sum()) for spans in view.paths.values()), default=0.0)
    return time_panels(title, view.end, [*lanes, spectrogram(view)], inches)


def masks_picture(title: str, view: AudioView) -> bytes:
    """The spectrogram as it is, and with the masks of training."""
    return time_panels(title, view.end, [spectrogram(view, "as it is"), spectrogram(view, "masked", view.masked)])


def maps_picture(
    title: str, view: AudioView, maps: Mapping[str, Float[np.ndarray, "rows columns"]], area: Area
) -> bytes:
    """The spectrogram, and below it maps over it, by name.

    Args:
      area: the bins and frames that a map covers.
    """
    return time_panels(title, view.end, [spectrogram(view), *(_map(view, *item, area) for item in maps.items())])


def spectrogram(view: AudioView, name: str = "", features: Float[np.ndarray, "F M"] | None = None) -> Panel:
    """The panel of features, the lowest frequency at the bottom; of samples, which have one, a line.

    Args:
      features: others, of which those that differ are grey. If None, there are none.
    """
    frames = view.features if features is None else np.where(features == view.features, features, np.nan)

    def draw(axes: Axes) -> None:
        if frames.shape[1] == 1:
            axes.plot(np.arange(len(frames)) * view.times.features, frames[:, 0], color=LIGHT.lines[0], lw=0.5)
        else:
            _energies(axes, view, frames, ENERGY)

    unit = "kHz" if view.frequencies is not None else "bins" if view.features.shape[1] > 1 else ""
    return Panel("\n".join(filter(None, (name, unit))), HIGH, draw)


def _energies(axes: Axes, view: AudioView, frames: Float[np.ndarray, "F M"], colors: str) -> None:
    low, high = np.percentile(view.features, (1, 99.5))
    extent = (0, view.seconds, 0, frames.shape[1])
    style: dict[str, Any] = {
        "cmap": colormaps[colors].with_extremes(bad=MASKED),
        "vmin": low,
        "vmax": high,
        "aspect": "auto",
        "interpolation": "nearest",
    }
    axes.imshow(frames.T, origin="lower", extent=extent, **style)
    if view.frequencies is not None:
        ticks = [hertz for hertz in TICKS if view.frequencies[0] <= hertz <= view.frequencies[-1]]
        axes.set_yticks(np.searchsorted(view.frequencies, ticks) + 0.5, [f"{hertz / 1000:g}" for hertz in ticks])


def _map(view: AudioView, name: str, heat: Float[np.ndarray, "rows columns"], area: Area) -> Panel:
    def draw(axes: Axes) -> None:
        low, high, first, last = area
        extent = (first * view.times.features, last * view.times.features, low, high)
        _energies(axes, view, view.features, "gray")
        colors = heat_colors(heat, float(heat.min()))
        axes.imshow(colors, origin="lower", extent=extent, aspect="auto", interpolation="nearest")
        axes.set_ylim(0, view.features.shape[1])

    return Panel(name, HIGH, draw)


def _lane(name: str, spans: Sequence[Span], seconds: float, number: int) -> Panel:
    """Symbols side by side, each joined to its frames, which are a bar at the bottom."""
    color = LIGHT.lines[number % len(LIGHT.lines)]

    def draw(axes: Axes) -> None:
        inches = axes.get_window_extent().width / DPI
        middles = np.array([(span.start + span.end) / 2 for span in spans])
        positions = spread(middles, symbol_inches(spans) * seconds / inches, seconds)
        for span, middle, position in zip(spans, middles, positions, strict=True):
            axes.text(position, 0.94, span.text, ha="center", va="top", fontsize=8.5, color=LIGHT.ink)
            axes.plot([position, middle], [0.52, 0.15], color=color, lw=0.6, clip_on=False)
            axes.fill_between([span.start, span.end], 0, 0.15, facecolor=color, edgecolor=LIGHT.paper, lw=0.8)
        axes.set_ylim(0, 1)

    return Panel(name, 0.46, draw, lane=True)


def symbol_inches(spans: Sequence[Span]) -> Float[np.ndarray, "N"]:
    """The width of each symbol, with a space."""
    return np.array([LETTER * len(span.text) + SPACE for span in spans], np.float64)


def spread(middles: Float[np.ndarray, "N"], widths: Float[np.ndarray, "N"], end: float) -> Float[np.ndarray, "N"]:
    """Ascending middles of things of these widths, moved so that none overlap and, if there is room, all are between 0
    and `end`; those that don't overlap stay."""
    if not len(middles):
        return middles
    steps = np.cumsum(widths) - (widths[0] + widths) / 2
    free = middles - steps
    after = np.maximum.accumulate(free)
    before = np.minimum.accumulate(free[::-1])[::-1]
    return np.clip((after + before) / 2, widths[0] / 2, end - steps[-1] - widths[-1] / 2) + steps
