"""Pictures of what a model of images reads."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from txjax.nn import Grid
from txjax.report.inspection.findings import Chosen, Inspection
from txjax.report.inspection.labels import label_tokens
from txjax.report.inspection.style import over_image, panels

FRAME = "#2563d9"  # of the query
_FIRST = "the token before the patches"  # a class token or the region of the whole image


def patches(row: np.ndarray, grid: Grid) -> np.ndarray:
    """The patches of a row of weights [S] as an array [rows columns]; tokens before the patches are left out."""
    return row[grid.prefix :].reshape(grid.rows, grid.columns)


def attention_picture(inspection: Inspection, path: str, chosen: Chosen, query: tuple[float, float] | None) -> bytes:
    """One example's map of every chosen head over its picture: a row for each layer, a column for each head.

    Args:
      query: the place of the query, whose patch is framed.
    """
    layers, heads = chosen
    attention = inspection.attentions[path]
    queries = attention.queries.grid
    grid = attention.keys.grid
    image = inspection.example.image
    weights = np.asarray(inspection.kept[path].weights)
    if attention.labelled_over_image:
        indices, _ = label_tokens(inspection.example, attention.queries, attention.queries.length)
        weights = weights[:, :, :, indices].mean(3)
    assert grid is not None and image is not None

    def draw(axes: Axes, i: int, j: int) -> None:
        draw_example(axes, inspection, patches(weights[i, 0, j - 1], grid) if j else None)
        if query is not None and queries is not None:
            high, wide = (side / count for side, count in zip(image.shape, queries[:2], strict=False))
            row, column = (int(part * count) for part, count in zip(query, queries[:2], strict=True))
            axes.add_patch(Rectangle((column * wide, row * high), wide, high, fill=False, ec=FRAME, lw=1.5))

    rows = [f"layer {i}" for i in layers]
    columns = ["image", *(f"head {i}" for i in heads)]
    of = f"all {'tokens of the text' if attention.queries.is_text else 'queries'}, in the mean"
    if queries is not None:
        of = "the framed patch" if query else _FIRST if queries.prefix else "all patches, in the mean"
    title = f"{inspection.example.title}: attention of {of}"
    return panels(rows, columns, draw, 1.0 if len(heads) > 6 else 1.25, title)


def draw_example(
    axes: Axes, inspection: Inspection, heat: np.ndarray | None, low: float = 0.0, high: float | None = None
) -> None:
    """The picture of an example, with a map over it; of a spectrogram the lowest frequency is at the bottom.

    Args:
      low, high: see `style.over_image`.
    """
    assert inspection.example.image is not None
    over_image(axes, inspection.example.image, heat, low, inspection.example.area, high)
    if "features" in inspection.example.inputs:
        axes.invert_yaxis()
        axes.set_aspect("auto")


def overview(
    inspections: Sequence[Inspection], rollouts: str | None, method: str | None, names: Sequence[str] | None
) -> bytes:
    """All examples: the picture, attention rollout and class activation.

    Args:
      rollouts: the path of the attention whose rollout is drawn. If None, none is.
      method: how class activation is found. If None, there is none.
      names: of the classes.
    """
    rows = ["image", *(["rollout"] if rollouts else []), *([method.split()[0]] if method else [])]
    columns = []
    for inspection in inspections:
        title = inspection.example.title.replace(" (", "\n").rstrip(")")
        if method and inspection.activation is not None:
            predicted = int(np.argmax(inspection.activation.logits[0]))
            title += f"\npredicted {names[predicted] if names else predicted}"
        columns.append(title)

    def draw(axes: Axes, i: int, j: int) -> None:
        heat = None
        if rows[i] == "rollout":
            heat = rolled_out(inspections[j], str(rollouts))
        elif i and (activation := inspections[j].activation) is not None:
            heat = np.asarray(activation.maps[0])
        draw_example(axes, inspections[j], heat, 0.0 if heat is None else float(heat.min()))

    return panels(
        rows,
        columns,
        draw,
        1.35,
        "Rollout and class activation"
        if rollouts and method
        else "Attention rollout"
        if rollouts
        else "Class activation",
    )


def rolled_out(inspection: Inspection, path: str) -> np.ndarray:
    """The rollout to the class token, or without one in the mean over the patches, as [rows columns]."""
    grid = inspection.attentions[path].keys.grid
    through = inspection.kept[path].rollout
    assert grid is not None and through is not None
    whole = np.asarray(through[0])
    return patches(whole[0] if grid.prefix else whole.mean(0), grid)
