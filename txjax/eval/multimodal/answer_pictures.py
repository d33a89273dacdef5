"""Right and wrong answers beside their images, as PNG."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from txjax.data import Turn
from txjax.data.multimodal.conversation_templates import MARKER
from txjax.eval.pictures import INK, frame_image, plot

COLOURS = {"right": "#2e8b57", "wrong": "#c0392b"}
LETTERS = 22  # of a line below an image
SIDE = 1.7  # of an image, in inches


class ShownAnswer(NamedTuple):
    """An answer with its image.

    Attributes:
      image: pixels from 0 to 1.
      turn: the question with the right answer.
      output: what the model wrote.
    """

    image: Float[np.ndarray, "H W C"]
    turn: Turn
    output: str

    def caption(self) -> str:
        """The question, the output, and the right answer where that is another."""
        question = self.turn.question.replace(MARKER, "").strip()
        answer = "" if self.output == self.turn.answer else f" (not {self.turn.answer})"
        return "\n".join([*textwrap.wrap(question, LETTERS), *textwrap.wrap(f"{self.output}{answer}", LETTERS)])


def answer_rows(rows: Mapping[str, Sequence[ShownAnswer]]) -> bytes:
    """A PNG with a row for each name, `right` or `wrong`, and the answers in it."""
    columns = max(map(len, rows.values()))

    def draw(figure: Any) -> None:
        for i, (name, answers) in enumerate(rows.items()):
            for j, answer in enumerate(answers):
                axes = figure.add_subplot(len(rows), columns, i * columns + j + 1)
                frame_image(axes, answer.image, COLOURS[name], answer.caption())
                if not j:
                    axes.set_ylabel(name, fontsize=10, color=INK)

    return plot((columns * SIDE, len(rows) * (SIDE + 0.6)), draw)
