"""The turns of a record's conversation: stored as such, or made of other features."""

import dataclasses
from collections.abc import Callable
from typing import Any

from txjax.data.multimodal.conversation_templates import MARKER, Turn, UnusableConversation
from txjax.data.multimodal.questions import Questions, TemplateQuestions
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.errors import UserError
from txjax.types import config_field

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
    """One turn, a question made of a record's features; it has a marker before it for each image.

    Attributes:
      questions: what makes the question and its answer.
      images: the images of a record.
    """

    questions: Questions = config_field(factory=TemplateQuestions)
    images: int = config_field(1, at_least=0)

    def features(self, stated: Any) -> tuple[str, ...]:
        return self.questions.features(stated)

    def function(self, stated: Any) -> ReadTurns:
        make = self.questions.function(stated)
        before = f"{MARKER}\n" * self.images

        def read(number: int, record: dict[str, Any]) -> list[Turn]:
            turn = make(number, record)
            return [turn._replace(question=before + turn.question)]

        return read


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
