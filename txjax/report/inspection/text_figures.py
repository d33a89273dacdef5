"""Pictures of what a model of texts reads."""

import numpy as np
from matplotlib.axes import Axes

from txjax.report.inspection.findings import Chosen, Seen
from txjax.report.inspection.style import heat, panels, short

TOKENS = 48  # the first tokens of a text that pictures show


def heads_picture(seen: Seen, path: str, chosen: Chosen, row: int = 0) -> bytes:
    """One example's map of every chosen head, without labels."""
    layers, heads = chosen
    weights, pairs, _ = _shown(seen, path, row)

    def draw(axes: Axes, i: int, j: int) -> None:
        heat(axes, weights[i, row, j][pairs])

    title = f"{seen.example.title}: {short(path)}"
    return panels([f"layer {i}" for i in layers], [f"head {i}" for i in heads], draw, 1.3, title)


def mean_picture(seen: Seen, path: str, chosen: Chosen, row: int = 0) -> bytes:
    """The mean over the heads in the last chosen layer, and attention rollout if there is one, with the tokens."""
    layers, heads = chosen
    weights, pairs, words = _shown(seen, path, row)
    number = f"head {heads[0]}" if len(heads) == 1 else f"mean of {len(heads)} heads"
    drawn = {f"layer {layers[-1]}, {number}": weights[-1, row].mean(0)[pairs]}
    if (through := seen.kept[path].rollout) is not None:
        drawn["rollout over all layers"] = through[row][pairs]
    maps = list(drawn.values())

    def draw(axes: Axes, i: int, j: int) -> None:
        heat(axes, maps[j])

    inches = max(2.4, 0.125 * max(map(len, words)))
    title = f"{seen.example.title}: {short(path)}, each row attends to columns"
    return panels([""], list(drawn), draw, inches, title, words)


def _shown(seen: Seen, path: str, row: int) -> tuple[np.ndarray, tuple[np.ndarray, ...], list[list[str]]]:
    """The weights, the indices of the first real queries and keys, and their words."""
    own, example = seen.attentions[path], seen.example
    names = own.queries.name, own.keys.name
    pairs = np.ix_(*(example.real(name, row, TOKENS) for name in names))
    return np.asarray(seen.kept[path].weights), pairs, [example.words(name, row, TOKENS) for name in names]
