"""The turns of a record's conversation: stored as such, or made of other features."""

import dataclasses
import string
from collections.abc import Callable
from typing import Any

from txjax.data.multimodal.conversation_templates import MARKER, Turn, UnusableConversation
from txjax.data.text.templates import Template
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.types import UserError

SPEAKERS = ("human", "gpt")  # of questions and of answers, as LLaVA's files name them
ReadTurns = Callable[[int, dict[str, Any]], list[Turn]]  # of a record, by its number and its features


@dataclasses.dataclass
class Turns:
    """Base of what makes the turns of a record. Its fields are all that the turns depend on, besides the record."""

    def features(self, stated: Any) -> tuple[str, ...]:
        """The features of a record that it reads.

        Args:
          stated: the data set's features, of TFDS.

        Raises:
          UserError: the set has no such features.
        """
        raise NotImplementedError

    def function(self, stated: Any) -> ReadTurns:
        """The turns of a record; it raises UnusableConversation for one that has none."""
        raise NotImplementedError


@dataclasses.dataclass
class StoredTurns(Turns):
    """A sequence of messages with `from` and `value`, of the human and the model in turn, as LLaVA's files have it.

    Attributes:
      feature: the name of the sequence.
    """

    feature: str = "conversations"

    def features(self, stated: Any) -> tuple[str, ...]:
        sequence = records.check_feature("data.turns.feature", self.feature, stated, ("Sequence",)).feature
        if missing := {"from", "value"} - set(getattr(sequence, "keys", dict)()):
            raise UserError("data.turns.feature", "a sequence of from and value", f"no {min(missing)}")
        return (self.feature,)

    def function(self, stated: Any) -> ReadTurns:
        return lambda number, record: pair_messages(
            list(map(as_string, record[self.feature]["from"])), list(map(as_string, record[self.feature]["value"]))
        )


@dataclasses.dataclass
class QuestionTurns(Turns):
    """One turn made of a record's features; the question has a marker before it for each image.

    Attributes:
      question: the text of the question, or a format string over the set's features, as in `Pairs`.
      answer: a format string.
      images: the images of a record.
    """

    question: str = "{question}"
    answer: str = "{answer}"
    images: int = 1

    def features(self, stated: Any) -> tuple[str, ...]:
        templates = [self._answer(stated), *([self._question(stated)] if self._is_template() else [])]
        return tuple(dict.fromkeys(name for template in templates for name in template.names))

    def function(self, stated: Any) -> ReadTurns:
        answer = self._answer(stated)
        question: Callable[[dict[str, Any]], str]
        question = self._question(stated) if self._is_template() else lambda record: self.question
        before = f"{MARKER}\n" * self.images
        return lambda number, record: [Turn(before + question(record), answer(record))]

    def _is_template(self) -> bool:
        """Whether the question depends on the record. Braces that a format string can't have are left to `Template`."""
        try:
            return any(name is not None for _, name, _, _ in string.Formatter().parse(self.question))
        except ValueError:
            return True

    def _question(self, stated: Any) -> Template:
        return Template(self.question, stated, "data.turns.question")

    def _answer(self, stated: Any) -> Template:
        return Template(self.answer, stated, "data.turns.answer")


def pair_messages(speakers: list[str], values: list[str]) -> list[Turn]:
    """The turns of messages.

    Raises:
      UnusableConversation: the messages are not of the human and the model in turn, or are not whole turns.
    """
    if not values:
        raise UnusableConversation("a conversation without messages")
    for number, speaker in enumerate(speakers):
        if speaker != SPEAKERS[number % 2]:
            raise UnusableConversation(f"message {number + 1} is from {speaker!r}, not from {SPEAKERS[number % 2]!r}")
    if len(values) % 2:
        raise UnusableConversation("the last message has no answer")
    return [Turn(question, answer) for question, answer in zip(values[::2], values[1::2], strict=True)]
