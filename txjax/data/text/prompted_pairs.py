"""Labelled texts as prompts of an encoder-decoder: the prompt is the source, each answer a target."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax
import numpy as np

from txjax.data.dataset import Example, describing_field
from txjax.data.text.prompt_rows import PromptEncoder, Row
from txjax.data.text.prompted_choices import PromptedChoices, PromptSource
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.types import config_field, spec


def _bytes() -> Bytes:
    return Bytes(specials=("[START]", "[END]"))


@dataclasses.dataclass
class PromptedPairs(PromptedChoices):
    """`PromptedChoices` for an encoder-decoder, as in `Pairs`: the source is a prompt and the end token.

    An example: source_tokens, source_segments int32 [S]; choice_tokens, choice_segments, choice_types int32 [O L], a
    row for each class: the start token (type 0), the answer and the end token (type 1), padding (segment 0); label and
    weights.

    Attributes:
      source_length: positions of the source, S. A prompt that is longer loses its first demonstrations; `too_long` and
        `buckets` are of the source, too.
      length: positions of an answer with the start and the end token, L.
      tokenizer: the tokenizer; it must have the start and the end token.
      start, end: names of the special tokens.
    """

    length: int = config_field(32, at_least=3)
    source_length: int = config_field(256, at_least=1)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    start: str | None = "[START]"
    end: str = "[END]"

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {key: spec((self.source_length,), "int32") for key in PairedPromptSource.cut}

    def check(self) -> None:
        super().check()
        if self.start is None:
            raise UserError("data.start", "the name of the token that targets begin with", None)
        self.tokenizer.special(self.end)

    def prompt_length(self) -> int:
        return self.source_length

    def encoder(self) -> "SourceEncoder":
        parts = vars(super().encoder())
        between = (self.tokenizer.special(self.end), *parts["start"])
        return SourceEncoder(**parts | {"start": ()}, between=between, answer_length=self.length)

    def prompt_source(self, prompts: Sequence[Sequence[str]], labels: np.ndarray) -> "PairedPromptSource":
        return PairedPromptSource(self, prompts, labels)


@dataclasses.dataclass(frozen=True)
class SourceEncoder(PromptEncoder):
    """Texts of prompts as `prompt [END] [START] answer [END]`, in which the model's source is the first two parts.

    Attributes:
      between: the end and the start token.
      answer_length: tokens that fit after the source.
    """

    between: tuple[int, ...]
    answer_length: int

    field: ClassVar[str] = "data.source_length"

    def encode(self, prompts: Sequence[str]) -> list[list[Row]]:
        between = np.array(self.between, np.int32)
        answers = self.tokenizer.encode_batch(self.answers)
        if (longest := max(map(len, answers)) + 2) > self.answer_length:
            expected = f"at least {longest}, the longest answer with the start and the end token"
            raise UserError("data.length", expected, self.answer_length)
        return [
            [Row(_join_tokens(ids, between, answer, between[:1]), len(ids) + 2) for answer in answers]
            for ids in self.tokenizer.encode_batch(prompts)
        ]

    def size(self, rows: Sequence[Row]) -> int:
        return rows[0].answer - 1


class PairedPromptSource(PromptSource):
    """Prompts as sources with all answers, by index."""

    cut: ClassVar[dict[str, int]] = {"source_tokens": 0, "source_segments": 0}

    def predicted_part(self, row: Row) -> Row:
        return Row(row.ids[row.answer - 1 :], 1)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        prompt, answer = self.row(index, 0)
        source = {key: np.zeros(self._data.prompt_length(), np.int32) for key in self.cut}
        source["source_tokens"][: answer - 1] = prompt[: answer - 1]
        source["source_segments"][: answer - 1] = 1
        return super().example(index, epoch, rng) | source


def _join_tokens(*parts: np.ndarray) -> np.ndarray:
    """Tokens one after another, int32."""
    return np.concatenate(parts, dtype=np.int32, casting="unsafe")
