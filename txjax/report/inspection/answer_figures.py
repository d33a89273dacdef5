"""Pictures of a language model that reads images: which patches the tokens of its answer attend to."""

import numpy as np
from matplotlib.axes import Axes

from txjax.report.inspection.attention_measures import grid_of
from txjax.report.inspection.findings import Chosen, Inspection
from txjax.report.inspection.style import over_image, panels, short

TOKENS = 8  # the first tokens of an answer that a picture shows


def reads_patches(inspection: Inspection, path: str) -> bool:
    """Whether an attention is between tokens of a text, of which some stand for the patches of a picture."""
    example = inspection.example
    return inspection.attentions[path].between_texts and example.image is not None and len(example.patches) > 0


def answer_picture(inspection: Inspection, path: str, chosen: Chosen) -> bytes:
    """The weights of the patches over the picture: a row for each layer, a column for each token of the answer.

    A token has the row of the place at which it is written; the mean over the chosen heads.
    """
    example = inspection.example
    image = example.image
    assert image is not None
    indices, words = example.written()
    shown = list(zip(indices.tolist(), words, strict=True))[:TOKENS]
    grid = grid_of(len(example.patches), *image.shape[:2], most=0)
    assert grid is not None
    layers, _ = chosen
    weights = np.asarray(inspection.kept[path].weights)[:, 0].mean(1)  # [layers L S]

    def draw(axes: Axes, i: int, j: int) -> None:
        heat = weights[i, shown[j - 1][0]][example.patches].reshape(grid.rows, grid.columns) if j else None
        over_image(axes, image, heat)

    columns = ["image", *(word for _, word in shown)]
    title = f"{example.title}: {short(path)}, the patches that each token of the answer attends to"
    return panels([f"layer {i}" for i in layers], columns, draw, 1.25, title)
