"""Templates of conversations: which text a model reads of the turns of a user and an assistant, and which it learns."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import NamedTuple

from txjax.data.tokenizers.tokenizer import Tokenizer
from txjax.errors import UserError

MARKER = "<image>"  # stands for an image in the texts of conversations


class Turn(NamedTuple):
    """A question and its answer.

    Attributes:
      question: the text, with `MARKER` for each image.
      answer: the text. If None, a model is to write it.
      kind: of the question, for scores by kind. If empty, it has none.
      references: the answers of several people, of which `answer` is one. If (), it alone is right.
    """

    question: str
    answer: str | None
    kind: str = ""
    references: tuple[str, ...] = ()


class Mark(enum.Enum):
    """What is no text in a conversation: the place of an image, and the end of an answer."""

    IMAGE = enum.auto()
    END = enum.auto()


class Piece(NamedTuple):
    """A part of a conversation.

    Attributes:
      content: a text, or a mark.
      learned: whether a model learns to write it.
    """

    content: str | Mark
    learned: bool = False


class UnusableConversation(ValueError):
    """A conversation that a template or a source can't use."""


@dataclasses.dataclass
class ConversationTemplate:
    """Base of templates."""

    def pieces(self, turns: Sequence[Turn]) -> list[Piece]:
        """The parts of a conversation, in their order; the last answer may be None.

        Raises:
          UnusableConversation: the template has no form for these turns.
        """
        raise NotImplementedError

    def end_token(self, tokenizer: Tokenizer) -> int | None:
        """The token for `Mark.END`; None if the template has no such mark.

        Raises:
          UserError: the tokenizer has no such token.
        """
        return None

    def text(self, turns: Sequence[Turn], end: str = "</s>") -> str:
        """The whole text, with `MARKER` for each image and `end` for the end of an answer."""
        names = {Mark.IMAGE: MARKER, Mark.END: end}
        contents = (piece.content for piece in self.pieces(turns))
        return "".join(names[content] if isinstance(content, Mark) else content for content in contents)


@dataclasses.dataclass
class PlainTemplate(ConversationTemplate):
    """Images, then their caption: of the question the markers alone remain.

    It is `plain` of the authors' code, by which the projector is trained (Liu et al. 2023a, section 4.2, stage 1).

    Attributes:
      separator: the text after the caption, which is learned too.
    """

    separator: str = "\n"

    def pieces(self, turns: Sequence[Turn]) -> list[Piece]:
        if len(turns) != 1:
            raise UnusableConversation(f"{len(turns)} turns, and PlainTemplate is for one")
        question, caption, *_ = turns[0]
        images = [Piece(Mark.IMAGE)] * question.count(MARKER)
        return images if caption is None else [*images, Piece(caption + self.separator, learned=True)]


@dataclasses.dataclass
class VicunaTemplate(ConversationTemplate):
    """Turns of a user and an assistant after a system text, as Vicuna reads them; the answers are learned.

    It is `v1` of the authors' code (Liu et al. 2023b). In a question with one marker the image comes first, as there:
    `What is this?\\n<image>` is read as `<image>\\nWhat is this?`. Several markers stay where they are.

    Attributes:
      system: the text before the first turn.
      user, assistant: what stands before a question and before an answer.
      separator: the text after the system text and after a question.
      end: the name of the special token after an answer. If None, the tokenizer's own (`Tokenizer.roles`).
    """

    system: str = (
        "A chat between a curious user and an artificial intelligence assistant. "
        "The assistant gives helpful, detailed, and polite answers to the user's questions."
    )
    user: str = "USER: "
    assistant: str = "ASSISTANT:"
    separator: str = " "
    end: str | None = None

    def pieces(self, turns: Sequence[Turn]) -> list[Piece]:
        pieces = [Piece(self.system + self.separator)] if self.system else []
        for question, answer, *_ in turns:
            asked = f"{self.user}{image_first(question)}{self.separator}{self.assistant}"
            pieces += split_markers(asked)
            if answer is not None:
                pieces += [Piece(f" {answer}", learned=True), Piece(Mark.END, learned=True)]
        return pieces

    def end_token(self, tokenizer: Tokenizer) -> int | None:
        if self.end is not None:
            return tokenizer.special(self.end)
        if not (ends := tokenizer.roles().eos):
            expected = "the name of a special token, since the tokenizer names none that ends a text"
            raise UserError("data.template.end", expected, None)
        return ends[0]


def image_first(question: str) -> str:
    """The question with its marker in a line before it; unchanged if it has none or several."""
    if question.count(MARKER) != 1:
        return question
    return f"{MARKER}\n{question.replace(MARKER, '').strip()}".strip()


def split_markers(text: str) -> list[Piece]:
    """A text that is not learned, with `Mark.IMAGE` for each marker."""
    first, *others = text.split(MARKER)
    pieces = [Piece(first)]
    for other in others:
        pieces += [Piece(Mark.IMAGE), Piece(other)]
    return [piece for piece in pieces if piece.content]
