"""Prompts with their answers as rows of tokens that fit."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from txjax.data.text.token_cache import BATCH
from txjax.data.tokenizers.tokenizer import Tokenizer
from txjax.errors import UserError

log = logging.getLogger("txjax")


class Row(NamedTuple):
    """A prompt and one of its answers.

    Attributes:
      ids: the tokens of both, int32.
      answer: the index of the answer's first token, at least 1.
    """

    ids: np.ndarray
    answer: int


@dataclasses.dataclass(frozen=True)
class PromptEncoder:
    """Texts of prompts as the rows of a decoder, one for each answer.

    Attributes:
      tokenizer: the tokenizer.
      start: the token before a prompt, or none.
      gap: the whitespace between a prompt and its answer.
      answers: the answers.
      separator: between the blocks of a prompt: its demonstrations, and at last the query.
      length: tokens that fit.
      too_long: "refuse" or "cut", for prompts whose query alone is too long.
    """

    tokenizer: Tokenizer
    start: tuple[int, ...]
    gap: str
    answers: tuple[str, ...]
    separator: str
    length: int
    too_long: str

    field: ClassVar[str] = "data.length"

    def fitting(self, prompts: Sequence[Sequence[str]], where: str) -> list[Row]:
        """The rows of all prompts: of the first prompt, then of the second. Says how many lose blocks or tokens.

        Args:
          prompts: the blocks of each.
          where: the name of the data, for messages.

        Raises:
          UserError: a prompt or an answer without a token, or a query that is too long.
        """
        fitted = []
        for first in range(0, len(prompts), BATCH):
            fitted += self._shorten(prompts[first : first + BATCH])
        limit = f"{self.field} = {self.length}"
        if fewer := sum(blocks < len(prompt) for (_, blocks), prompt in zip(fitted, prompts, strict=True)):
            log.warning("%s: %d of %d prompts lose demonstrations, %s", where, fewer, len(fitted), limit)
        sizes = [self.size(rows) for rows, _ in fitted]
        if max(sizes) > self.length and self.too_long == "refuse":
            hint = 'or too_long = "cut": longer ones lose their first tokens'
            raise UserError(self.field, f"at least {max(sizes)}, the longest prompt of {where}", self.length, hint=hint)
        if long := sum(size > self.length for size in sizes):
            log.warning("%s: %d of %d prompts lose their first tokens, %s", where, long, len(fitted), limit)
        return [row for (rows, _), size in zip(fitted, sizes, strict=True) for row in self._truncate(rows, size)]

    def encode(self, prompts: Sequence[str]) -> list[list[Row]]:
        """The rows of each prompt, of any length.

        Prompt and answer are one text; the answer's tokens are those after as many as the prompt alone has.
        """
        start = np.array(self.start, np.int32)
        alone = self.tokenizer.encode_batch(prompts)
        whole = iter(self.tokenizer.encode_batch([f"{p}{self.gap}{a}" for p in prompts for a in self.answers]))
        encoded = []
        for prompt, ids in zip(prompts, alone, strict=True):
            size = len(self.start) + len(ids)
            if not size:
                hint = "words in data.template, or a token data.start, give every prompt one"
                raise UserError("data", "at least one token before an answer", prompt, hint=hint)
            rows = [
                Row(np.concatenate([start, next(whole)], dtype=np.int32, casting="unsafe"), size) for _ in self.answers
            ]
            encoded.append(rows)
            if empty := [answer for answer, row in zip(self.answers, rows, strict=True) if len(row.ids) <= size]:
                raise UserError("data.answers", "at least one token in each answer", empty[0])
        return encoded

    def size(self, rows: Sequence[Row]) -> int:
        """The tokens that have to fit, of the rows of one prompt."""
        return max(len(row.ids) for row in rows)

    def _shorten(self, prompts: Sequence[Sequence[str]]) -> list[tuple[list[Row], int]]:
        """The rows of each prompt, which loses its first blocks until it fits, and the number of blocks that remain."""
        rows = self.encode([self.separator.join(blocks) for blocks in prompts])
        fitted = [(group, len(blocks)) for group, blocks in zip(rows, prompts, strict=True)]
        long = [i for i, (group, blocks) in enumerate(fitted) if blocks > 1 and self.size(group) > self.length]
        for i, shorter in zip(long, self._shorten([prompts[i][1:] for i in long]) if long else (), strict=True):
            fitted[i] = shorter
        return fitted

    def _truncate(self, rows: Sequence[Row], size: int) -> Sequence[Row]:
        """The rows of one prompt without as many of its first tokens as are too many; the start token stays."""
        excess = size - self.length
        first = len(self.start)
        if excess <= 0:
            return rows
        if rows[0].answer - excess < max(first, 1):
            least = size - rows[0].answer + max(first, 1)
            raise UserError(self.field, f"at least {least}, an answer and a token before it", self.length)
        return [Row(np.delete(row.ids, slice(first, first + excess)), row.answer - excess) for row in rows]
