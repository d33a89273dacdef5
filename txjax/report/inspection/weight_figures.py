"""Pictures of a model's first parameters: similarity of position embeddings, filters of the first projection."""

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from txjax.nn import Grid
from txjax.report.inspection.style import DPI, panels
from txjax.report.png import png
from txjax.report.theme import LIGHT, WORDS

SIMILARITY = "RdBu_r"  # of cosines from -1 to 1
MOST = 14  # rows and columns of a grid that are drawn; of larger grids, evenly spread ones
FILTERS = 32
COLUMNS = 8


def similarity_picture(cosines: Float[np.ndarray, "L L"], grid: Grid | None, name: str) -> bytes:
    """Cosines between position embeddings: a matrix, or for a grid a map for each patch (ViT's figure 7)."""
    if grid is None:
        return _matrix(cosines, name)
    patches = cosines[grid.prefix :, grid.prefix :].reshape(*grid[:2], *grid[:2])
    rows, columns = (_spread_numbers(size) for size in grid[:2])

    def draw(axes: Axes, i: int, j: int) -> None:
        axes.imshow(patches[rows[i], columns[j]], cmap=SIMILARITY, vmin=-1, vmax=1, interpolation="nearest")

    title = "Similarity of position embeddings" + ("" if name == "positions" else f" ({name})")
    return panels([f"row {i}" for i in rows], [f"column {j}" for j in columns], draw, 0.8, title)


def _matrix(cosines: Float[np.ndarray, "L L"], name: str) -> bytes:
    with rc_context(WORDS):
        figure = Figure(figsize=(4.6, 4), dpi=DPI, facecolor=LIGHT.paper, layout="constrained")
        axes = figure.subplots()
        image = axes.imshow(cosines, cmap=SIMILARITY, vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(
            "Similarity of position embeddings" + ("" if name == "positions" else f" ({name})"),
            loc="left",
            fontsize=10,
            fontweight="bold",
        )
        axes.set_xlabel("position", fontsize=9, color=LIGHT.faint)
        axes.set_ylabel("position", fontsize=9, color=LIGHT.faint)
        axes.tick_params(colors=LIGHT.faint, labelsize=8, length=0)
        axes.spines[:].set_visible(False)
        bar = figure.colorbar(image, shrink=0.8)
        bar.outline.set_visible(False)  # type: ignore[operator]
        bar.set_label("cosine", fontsize=9, color=LIGHT.faint)
        bar.ax.tick_params(colors=LIGHT.faint, labelsize=8, length=0)
        return png(figure)


def filters_picture(filters: Float[np.ndarray, "F h w C"], title: str, names: list[str]) -> bytes:
    """The first filters, each scaled to its own range, with its name below the others' rows."""
    shown = filters[:FILTERS]
    rows = -(-len(shown) // COLUMNS)

    def draw(axes: Axes, i: int, j: int) -> None:
        number = i * COLUMNS + j
        if number >= len(shown):
            return
        image = shown[number]
        top = float(np.abs(image).max()) or 1.0
        if image.shape[2] == 3:
            axes.imshow(0.5 + 0.5 * image / top, interpolation="nearest")
        else:
            axes.imshow(image.mean(2), cmap="gray", vmin=-top, vmax=top, interpolation="nearest")
        axes.set_xlabel(names[number], fontsize=7, color=LIGHT.faint, labelpad=2)

    return panels([""] * rows, [""] * min(COLUMNS, len(shown)), draw, 1.0, title, gap=0.24)


def _spread_numbers(size: int) -> list[int]:
    return list(range(size)) if size <= MOST else [i * (size - 1) // (MOST - 1) for i in range(MOST)]
