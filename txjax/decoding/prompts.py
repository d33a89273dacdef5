"""Prompts as the inputs of a model's first call: texts that a decoder continues, sources of an encoder-decoder."""

import abc
import dataclasses
import logging
import string
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from txjax.data import Pairs, Tokenizer
from txjax.decoding.generator import Inputs
from txjax.errors import UserError

log = logging.getLogger("txjax")

Ids = Int[np.ndarray, "P"]


@dataclasses.dataclass(frozen=True)
class Prompts(abc.ABC):
    """How a model gets prompts, which follows from the data that it was trained on (`prompts_for`).

    A prompt is a text, or what a subclass says.

    Attributes:
      tokenizer: of the text that the model writes.
      end: the tokens that end a text; () if there are none.
    """

    tokenizer: Tokenizer
    end: tuple[int, ...] = ()

    default: ClassVar[str] = ""  # the prompt, if none is given
    flag: ClassVar[str] = "--prompt"  # of `txjax generate`, which has the prompts

    @abc.abstractmethod
    def inputs(self, prompts: Sequence[Any], field: str) -> Inputs:
        """The inputs of the first call, a row for each prompt, as keys of a batch (`objectives.model_inputs`).

        Args:
          field: the field or flag that has the prompts, for messages.

        Raises:
          UserError: a prompt without a token, or one that is too long.
        """

    @abc.abstractmethod
    def text_before(self, prompt: Any) -> str:
        """What is printed before the text that a model wrote for a prompt."""

    @abc.abstractmethod
    def text(self, prompt: Any, ids: Ids) -> str:
        """The text of the tokens that a model wrote for a prompt: `before` and it are the text of all tokens."""

    def record(self, prompt: Any) -> dict[str, Any]:
        """The prompt in a line of JSON."""
        return {"prompt": prompt}


@dataclasses.dataclass(frozen=True)
class Beginnings(Prompts):
    """Prompts of a decoder: the beginnings of its texts."""

    default: ClassVar[str] = "\n"

    def inputs(self, prompts: Sequence[str], field: str) -> Inputs:
        hint = "a decoder continues a text, such as --prompt='The '"
        return pad_prompts(_check_prompts(prompts, self.tokenizer.encode_prompts(prompts), field, hint))

    def text_before(self, prompt: str) -> str:
        return self.tokenizer.decode(self._ids(prompt))

    def text(self, prompt: str, ids: Ids) -> str:
        return self.tokenizer.continuation(self._ids(prompt), ids.tolist())

    def _ids(self, prompt: str) -> list[int]:
        """The tokens of a prompt alone."""
        return [int(i) for i in self.tokenizer.parse_batch([prompt])[0]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources(Prompts):
    """Prompts of an encoder-decoder: its sources. The target begins with the start token alone.

    Sources of different lengths are padded on the right, with `source_segments` 0.

    Attributes:
      pairs: the training data, or one of several sets with equal tokens.
      template: the format string that a prompt is put into, of one feature. If None, the prompt is the whole source.
    """

    pairs: Pairs
    template: str | None = None

    @property
    def opening(self) -> tuple[int, ...]:
        """The token that begins a target."""
        return (self.tokenizer.special(self.pairs.start),)

    def inputs(self, prompts: Sequence[str], field: str) -> Inputs:
        pairs = self.pairs
        tokenizer, _ = self.pairs.tokenizers()
        hint = "an encoder-decoder reads a source, such as --prompt='A dog runs.'"
        _check_prompts(prompts, tokenizer.parse_batch(prompts), field, hint)
        ids = tokenizer.parse_batch([self.source(prompt) for prompt in prompts])
        most = pairs.source_length - 1
        longest = max(map(len, ids))
        limit = f"at most {most} tokens, data.source_length without the end token"
        if longest > most and pairs.too_long != "cut":
            raise UserError(field, limit, longest, hint=f"data.too_long is {pairs.too_long}")
        if long := sum(len(tokens) > most for tokens in ids):
            log.warning("%s: %d of %d sources lose their last tokens: %s are read", field, long, len(ids), limit)
        end = tokenizer.special(pairs.end)
        source, segments = _fill_rows([np.append(tokens[:most], end) for tokens in ids], [0] * len(ids))
        inputs: Inputs = {"tokens": np.tile(np.array(self.opening, np.int32), (len(ids), 1)), "source_tokens": source}
        return inputs if segments.all() else {**inputs, "source_segments": segments}

    def source(self, prompt: str) -> str:
        """The source text of a prompt."""
        if self.template is None:
            return prompt
        return self.template.format(**{name: prompt for name, _ in template_features(self.template)})

    def text_before(self, prompt: str) -> str:
        return prompt + "\n"

    def text(self, prompt: str, ids: Ids) -> str:
        return self.tokenizer.decode(ids)


def pad_prompts(prompts: Sequence[Ids]) -> Inputs:
    """The inputs of a decoder for some prompts, each of at least one token.

    Shorter ones are padded on the left, so that all texts continue at the same index: `segments` are 0 there and 1 in
    the prompt, whose `positions` count from 0. Prompts of one length give `tokens` alone.
    """
    longest = max(map(len, prompts))
    tokens, segments = _fill_rows(prompts, [longest - len(prompt) for prompt in prompts])
    if segments.all():
        return {"tokens": tokens}
    positions = np.maximum(segments.cumsum(1, dtype=np.int32) - 1, 0)
    return {"tokens": tokens, "segments": segments, "positions": positions}


def until(tokens: Int[np.ndarray, "L"], end: tuple[int, ...]) -> Int[np.ndarray, "N"]:
    """A row's tokens before the first of those that end a text."""
    ends = np.flatnonzero(np.isin(tokens, end))
    return tokens[: ends[0]] if len(ends) else tokens


def _check_prompts(prompts: Sequence[str], ids: list[Ids], field: str, hint: str) -> list[Ids]:
    """The tokens of each prompt. Raises UserError, with the hint, if one has none."""
    for prompt, tokens in zip(prompts, ids, strict=True):
        if not len(tokens):
            raise UserError(field, "at least one token", prompt, hint=hint)
    return ids


def _fill_rows(rows: Sequence[Ids], begins: Sequence[int]) -> tuple[Int[np.ndarray, "B P"], Int[np.ndarray, "B P"]]:
    """Rows as one array, each from its own index on, and 1 where they are; 0 elsewhere. Both int32."""
    longest = max(begin + len(row) for row, begin in zip(rows, begins, strict=True))
    tokens, segments = np.zeros((2, len(rows), longest), np.int32)
    for number, (row, begin) in enumerate(zip(rows, begins, strict=True)):
        place = number, slice(begin, begin + len(row))
        tokens[place], segments[place] = row, 1
    return tokens, segments


def template_features(template: str) -> set[tuple[str, str]]:
    """The features that a format string names, each with its format."""
    return {(name, form or "") for _, name, form, _ in string.Formatter().parse(template) if name is not None}
