"""The curves of a page as numbers, of which a script of the page makes charts (`templates/charts.js`, with uPlot)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from txjax.report.panels import Panel
from txjax.report.png import CSS_DPI

MOST_POINTS = 100_000  # of all lines of a page
LEAST_POINTS = 200  # that a line may have, however many lines there are
AVERAGE_POINTS = 1000  # of a moving average, which is smooth
DIGITS = 6  # of a value


def chart_data(light: Sequence[Panel], dark: Sequence[Panel]) -> dict[str, Any]:
    """What the script reads, as plain JSON.

    Args:
      light: the panels in the light theme.
      dark: the same ones in the dark theme.

    Returns:
      `steps`: arrays of steps, which lines share. `charts`: the panels that have lines. Each of their `lines` has its
      `colors` (light and dark), its `points` and the points of its moving `average`, or null: the number of an array of
      steps, and the values, null for one that isn't finite. `limit`: the most points of a line, null if none has
      fewer than were logged.
    """
    limit = max(MOST_POINTS // max(sum(len(panel.lines) for panel in light), 1), LEAST_POINTS)
    arrays: dict[tuple[int, ...], int] = {}

    def points(steps: Sequence[int], values: Sequence[float], gaps: Sequence[int], most: int) -> list[Any]:
        finite = [(step, float(f"{value:.{DIGITS}g}")) for step, value in zip(steps, values, strict=True)]
        kept = _thin(sorted([*finite, *((step, np.nan) for step in gaps)], key=lambda point: point[0]), most)
        array = arrays.setdefault(tuple(step for step, _ in kept), len(arrays))
        return [array, [value if np.isfinite(value) else None for _, value in kept]]

    def chart(panel: Panel, twin: Panel) -> dict[str, Any]:
        lines = []
        for line, other in zip(panel.lines, twin.lines, strict=True):
            average = panel.average(line)
            lines.append(
                {
                    "name": line.name,
                    "colors": [line.color, other.color],
                    "measured": line.measured,
                    "points": points(line.steps, line.values, line.gaps, limit),
                    "average": average and points(line.steps, average, line.gaps, min(limit, AVERAGE_POINTS)),
                }
            )
        return {
            "title": panel.title,
            "height": round(panel.inches * CSS_DPI),
            "bottom": panel.bottom,
            "top": panel.top,
            "lines": lines,
        }

    panels = [chart(*pair) for pair in zip(light, dark, strict=True) if pair[0].lines]
    thinned = any(len(line.steps) + len(line.gaps) > limit for panel in light for line in panel.lines)
    return {"steps": list(arrays), "charts": panels, "limit": limit if thinned else None}


def _thin(points: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """About so many points: the first and the last, and of each interval the least, the greatest and one gap."""
    if len(points) <= most:
        return points
    values = np.asarray([value for _, value in points])
    kept = {0, len(points) - 1}
    for part in np.array_split(np.arange(len(points)), most // 3):
        finite = part[np.isfinite(values[part])]
        kept |= set(part[np.isnan(values[part])][:1].tolist())
        if len(finite):
            kept |= {int(finite[values[finite].argmin()]), int(finite[values[finite].argmax()])}
    return [points[i] for i in sorted(kept)]
