"""Pictures of what a model of texts reads."""

import numpy as np
from matplotlib.axes import Axes

from txjax.report.inspection.findings import Chosen, Inspection
from txjax.report.inspection.labels import label_tokens
from txjax.report.inspection.style import heat, panels, short

TOKENS = 48  # the first tokens of a text that pictures show


def heads_picture(inspection: Inspection, path: str, chosen: Chosen, row: int = 0) -> bytes:
    """One example's map of every chosen head, without labels."""
    layers, heads = chosen
    weights, pairs, _ = _weights_and_words(inspection, path, row)

    def draw(axes: Axes, i: int, j: int) -> None:
        heat(axes, weights[i, row, j][pairs])

    title = f"{inspection.example.title}: {short(path)}"
    return panels([f"layer {i}" for i in layers], [f"head {i}" for i in heads], draw, 1.3, title)


def mean_picture(inspection: Inspection, path: str, chosen: Chosen, row: int = 0) -> bytes:
    """The mean over the heads, and attention rollout if there is one, with the tokens.

    Between texts of the last chosen layer, else of all.
    """
    layers, heads = chosen
    weights, pairs, words = _weights_and_words(inspection, path, row)
    number = f"head {heads[0]}" if len(heads) == 1 else f"mean of {len(heads)} heads"
    first = -1 if inspection.attentions[path].between_texts else 0
    panels_by_title = {
        f"layer {layer}, {number}": of_layer[row].mean(0)[pairs]
        for layer, of_layer in zip(layers[first:], weights[first:], strict=True)
    }
    if (through := inspection.kept[path].rollout) is not None:
        panels_by_title["rollout over all layers"] = through[row][pairs]
    maps = list(panels_by_title.values())

    def draw(axes: Axes, i: int, j: int) -> None:
        heat(axes, maps[j])

    inches = max(2.4, 0.125 * max(map(len, words)))
    title = f"{inspection.example.title}: {short(path)}, each row attends to columns"
    return panels([""], list(panels_by_title), draw, inches, title, words)


def _weights_and_words(
    inspection: Inspection, path: str, row: int
) -> tuple[np.ndarray, tuple[np.ndarray, ...], list[list[str]]]:
    """The weights, the indices of the first real queries and keys, and their words."""
    attention = inspection.attentions[path]
    sides = [
        label_tokens(inspection.example, sequence, TOKENS, row) for sequence in (attention.queries, attention.keys)
    ]
    pairs = np.ix_(*(indices for indices, _ in sides))
    return np.asarray(inspection.kept[path].weights), pairs, [words for _, words in sides]
