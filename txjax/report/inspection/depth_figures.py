"""The picture of how far heads look, by depth."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.figure import Figure

from txjax.report.inspection.style import DPI, short
from txjax.report.png import png
from txjax.report.theme import LIGHT, WORDS, style_axes


def distance_picture(distances: Mapping[str, Float[np.ndarray, "layers H"]], unit: str) -> bytes:
    """A point for every head over its layer (Dosovitskiy et al. 2021, figure 7 on the right).

    Args:
      distances: by path of the attention; the stages of a hierarchical model follow each other.
      unit: of the distances.
    """
    with rc_context(WORDS):
        figure = Figure(figsize=(6.4, 3.6), dpi=DPI, facecolor=LIGHT.paper, layout="constrained")
        axes = figure.subplots()
        names = [short(path) for path in distances]
        alone = f": {names[0]}" if len(names) == 1 and "/" in names[0] else ""
        style_axes(axes, LIGHT, f"Mean attention distance of each head{alone}")
        first = 0
        staged = all(path.startswith("stages_") for path in distances)
        for number, rows in enumerate(distances.values()):
            layers = np.arange(len(rows)) + (first if staged else 0)
            first += len(rows)
            color = LIGHT.lines[number % len(LIGHT.lines)]
            axes.plot(
                np.repeat(layers, rows.shape[1]), rows.ravel(), "o", color=color, alpha=0.65, ms=5, label=names[number]
            )
            axes.plot(layers, rows.mean(1), color=color, lw=1.2, alpha=0.8)
        count = first if staged else max(map(len, distances.values()))
        axes.set_xticks(range(0, count, 1 + count // 16))
        axes.set_xlim(-0.5, count - 0.5)
        axes.set_ylim(0, 1.08 * max(rows.max() for rows in distances.values()) or 1.0)  # of one token all are 0
        axes.set_xlabel("layer (the line is the mean of its heads)", fontsize=9, color=LIGHT.faint)
        axes.set_ylabel(unit, fontsize=9, color=LIGHT.faint)
        if len(distances) > 1:
            axes.legend(fontsize=8, frameon=False, labelcolor=LIGHT.ink)
        return png(figure)
