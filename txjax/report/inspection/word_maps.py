"""Maps over a picture, one for each word of a text or each query: what it reads of the image, or what reads it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from txjax.report.inspection.attention_measures import grid_of
from txjax.report.inspection.findings import Chosen, Inspection
from txjax.report.inspection.image_figures import draw_example
from txjax.report.inspection.labels import label_tokens
from txjax.report.inspection.style import panels, short

MOST = 32  # the first words that a picture shows


class WordMaps(NamedTuple):
    """The maps of one attention, the mean over the chosen heads.

    Attributes:
      kind: the end of the picture's name.
      section: the heading that the picture is under.
      meaning: of a map, for the caption.
      labels: the words or the queries.
      maps: the weights; where tokens of an answer are read, of the place at which each is written.
    """

    kind: str
    section: str
    meaning: str
    labels: list[str]
    maps: Float[np.ndarray, "layers N rows columns"]


def word_maps(inspection: Inspection, path: str) -> WordMaps | None:
    """The maps of an attention between an image and what has labels. None of any other."""
    example = inspection.example
    attention = inspection.attentions[path]
    image = example.image
    if image is None:
        return None
    if attention.between_texts and len(example.patches):
        grid = grid_of(len(example.patches), *image.shape[:2], most=0)
        assert grid is not None
        indices, words = example.written()
        rows = _mean_of_heads(inspection, path)[:, indices[:MOST]][..., example.patches]
        section = "Attention of the answer over the image"
        meaning = "Where in the image the tokens of the answer are read from"
        return WordMaps("answer", section, meaning, words[:MOST], rows.reshape(*rows.shape[:2], *grid[:2]))
    if attention.labelled_over_image:
        grid = attention.keys.grid
        indices, words = label_tokens(example, attention.queries, MOST)
        rows = _mean_of_heads(inspection, path)[:, indices]
        section = "Attention over the image"
        meaning = f"What the {attention.queries.one} of each row reads of the image"
    elif attention.image_over_labelled:
        grid = attention.queries.grid
        indices, words = label_tokens(example, attention.keys, MOST)
        rows = _mean_of_heads(inspection, path)[..., indices].swapaxes(1, 2)
        section = "Attention of the image"
        meaning = f"How much each place of the image reads the {attention.keys.one} of each row"
    else:
        return None
    assert grid is not None
    return WordMaps("words", section, meaning, words, rows[..., grid.prefix :].reshape(*rows.shape[:2], *grid[:2]))


def _mean_of_heads(inspection: Inspection, path: str) -> Float[np.ndarray, "layers L S"]:
    return np.asarray(inspection.kept[path].weights)[:, 0].mean(1)


def word_maps_picture(inspection: Inspection, path: str, chosen: Chosen, words: WordMaps) -> bytes:
    """The maps over the picture: a row for each word, a column for each layer, whose maps have one scale."""
    layers, _ = chosen
    largest = words.maps.max((1, 2, 3)).tolist()

    def draw(axes: Axes, i: int, j: int) -> None:
        if j == 0:
            draw_example(axes, inspection, None)
        else:
            draw_example(axes, inspection, words.maps[j - 1, i], high=largest[j - 1])

    columns = ["image", *(f"layer {i}" for i in layers)]
    title = f"{inspection.example.title}, {short(path)}: {words.meaning[0].lower()}{words.meaning[1:]}"
    return panels(words.labels, columns, draw, 1.0 if len(words.labels) <= MOST // 2 else 0.75, title)
