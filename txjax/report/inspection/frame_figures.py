"""Pictures of attention to an encoder's tokens of audio, below the spectrogram."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from txjax.report.inspection.audio_figures import spectrogram
from txjax.report.inspection.audio_views import AudioView
from txjax.report.inspection.findings import Chosen, Inspection
from txjax.report.inspection.style import heat, panels, short
from txjax.report.inspection.time_panels import Panel, time_panels
from txjax.report.theme import LIGHT

ROW = 0.15  # inches of a token
SQUARE = 2.5  # inches of a map from time to time


def mean_over_time(inspection: Inspection, view: AudioView, path: str, chosen: Chosen) -> bytes:
    """The mean over the heads in the last chosen layer: queries downwards, the time of the keys to the right."""
    layers, heads = chosen
    weights, words = _weights_and_words(inspection, view, path)
    seconds = (view.times.tokens or view.times.features) * weights.shape[-1]
    rows = len(words) or view.end
    number = f"head {heads[0]}" if len(heads) == 1 else f"mean of {len(heads)} heads"

    def draw(axes: Axes) -> None:
        heat(axes, weights[-1].mean(0), (0, seconds, rows, 0))
        if words:
            axes.set_yticks(np.arange(len(words)) + 0.5, words, fontsize=8, color=LIGHT.ink)
        else:
            axes.yaxis.set_major_locator(MaxNLocator(6))

    title = f"{inspection.example.title}: {short(path)}, layer {layers[-1]}, {number}"
    panel = Panel("written" if words else "seconds", ROW * len(words) if words else SQUARE, draw)
    return time_panels(title, view.end, [spectrogram(view), panel])


def heads_over_time(inspection: Inspection, view: AudioView, path: str, chosen: Chosen) -> bytes:
    """The map of every chosen head, without labels."""
    layers, heads = chosen
    weights, _ = _weights_and_words(inspection, view, path)

    def draw(axes: Axes, i: int, j: int) -> None:
        heat(axes, weights[i, j])

    title = f"{inspection.example.title}: {short(path)}"
    return panels([f"layer {i}" for i in layers], [f"head {i}" for i in heads], draw, 1.3, title)


def _weights_and_words(inspection: Inspection, view: AudioView, path: str) -> tuple[np.ndarray, list[str]]:
    """The weights [layers H L S] of queries and keys that aren't padding, and the words of queries, if they are."""
    weights = np.asarray(inspection.kept[path].weights)[:, 0, ..., : view.tokens]
    if inspection.attentions[path].queries.name != "tokens":
        return weights[:, :, : view.tokens], []
    indices, words = inspection.example.written()
    return weights[:, :, indices], words
