"""Texts of an evaluation harness as rows of a batch, with the tokens that its Hugging Face backend scores."""

import abc
import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from txjax.data import Dataset, Pairs, Tokenizer
from txjax.data.tokenizers.special_tokens import NAMES
from txjax.decoding import Beginnings, prompts_for, until
from txjax.decoding.prompts import Sources
from txjax.errors import UserError

Ids = list[int]
Row = dict[str, np.ndarray]

SHORTEST = 16  # positions of the smallest batch


@dataclasses.dataclass(frozen=True)
class Texts(abc.ABC):
    """How a model gets a context and what follows it.

    Token ids are those of `lm_eval.models.huggingface.HFLM` for the tokenizer's file: with the special tokens that the
    file adds to a text, and a context that is too long loses its first tokens.

    Attributes:
      field: the field or flag that has the evaluator's fields, for messages.
      tokenizer: of the text that the model predicts.
      window: positions of that text, at most.
      prefix: the token that stands for an empty context.
      end: the tokens that end a generated text; () if there are none.
    """

    field: str
    tokenizer: Tokenizer
    window: int
    prefix: int
    end: tuple[int, ...]

    @abc.abstractmethod
    def pair(self, context: str, continuation: str) -> tuple[Ids, Ids]:
        """The tokens of a context, one at least, and of its continuation. Spaces between them are the second's."""

    @abc.abstractmethod
    def scored_row(self, context: Ids, continuation: Ids) -> Row:
        """The row that predicts the continuation: `weights` is 1 at its tokens in `targets`. Padded on the right."""

    @abc.abstractmethod
    def prompt(self, context: str, count: int) -> Row:
        """The row after which up to `count` tokens are generated."""

    @abc.abstractmethod
    def longest(self) -> int:
        """The number of tokens that can be generated, at most."""

    def windows(self, text: str) -> list[tuple[Ids, Ids]]:
        """Contexts and continuations of at most `window` tokens; the continuations are the text, and none overlap."""
        from lm_eval.utils import get_rolling_token_windows, make_disjoint_window  # an extra

        parts = get_rolling_token_windows(self.whole(text), self.prefix, self.window, context_len=1)
        return [make_disjoint_window(part) for part in parts]

    def whole(self, text: str, tokenizer: Tokenizer | None = None) -> Ids:
        """The tokens of a text with the special ones that its tokenizer adds.

        Args:
          tokenizer: of the text. If None, `tokenizer`.
        """
        return [int(i) for i in (tokenizer or self.tokenizer).encode_prompts([text])[0]]

    def plain(self, text: str) -> Ids:
        """The tokens of a text alone."""
        return [int(i) for i in self.tokenizer.parse_batch([text])[0]]

    def ends(self, stops: Sequence[str]) -> tuple[int, ...]:
        """The tokens that end a generated text: `end`, and the special tokens among a task's stops."""
        names = self.tokenizer.special_names()
        return tuple(dict.fromkeys([*self.end, *(names[stop] for stop in stops if stop in names)]))

    def text(self, tokens: np.ndarray, ends: tuple[int, ...]) -> str:
        """The text of generated tokens before the first that ends it, without special tokens."""
        specials = self.tokenizer.special_ids() or frozenset()
        return self.tokenizer.decode(int(i) for i in until(tokens, ends) if int(i) not in specials)

    def check_tokens(self, context: str, continuation: str, ids: Ids) -> Ids:
        """The tokens of a continuation. Raises UserError if a text has none: it is one token with its context."""
        if continuation and not ids:
            got = f"{continuation!r} after {context[-40:]!r}, whose last token it is a part of"
            raise UserError(f"{self.field}.tasks", "a task whose answers have tokens of their own", got)
        return ids

    def fits(self, continuation: Ids) -> None:
        """Raises UserError if the window is too short for a continuation."""
        if len(continuation) > self.window:
            hint = f"an answer of a task has {len(continuation)} tokens"
            raise UserError(f"{self.field}.window", f"at least {len(continuation)}", self.window, hint=hint)


@dataclasses.dataclass(frozen=True)
class DecoderTexts(Texts):
    """A decoder reads the context and the continuation as one text."""

    def pair(self, context: str, continuation: str) -> tuple[Ids, Ids]:
        context, continuation = move_spaces(context, continuation)
        if not context:
            return pair_with_prefix(self.prefix, self.plain(continuation))
        whole = self.whole(context + continuation)
        before = self.whole(context)
        return before, self.check_tokens(context, continuation, whole[len(before) :])

    def scored_row(self, context: Ids, continuation: Ids) -> Row:
        self.fits(continuation)
        ids = (context + continuation)[-(self.window + 1) :]
        size = padded_size(len(ids) - 1, self.window)
        weights = np.zeros(size, np.float32)
        weights[len(ids) - 1 - len(continuation) : len(ids) - 1] = 1
        return {"tokens": pad_ids(ids[:-1], size), "targets": pad_ids(ids[1:], size), "weights": weights}

    def prompt(self, context: str, count: int) -> Row:
        ids = (self.whole(context) or [self.prefix])[-(self.window - count) :]
        size = padded_size(len(ids), self.window - count)
        before = size - len(ids)
        positions = np.arange(size, dtype=np.int32) - before
        return {
            "tokens": np.roll(pad_ids(ids, size), before),
            "segments": (positions >= 0).astype(np.int32),
            "positions": np.maximum(positions, 0),
            "weights": np.ones((), np.float32),
        }

    def longest(self) -> int:
        return max(1, self.window // 2)


@dataclasses.dataclass(frozen=True)
class SourceTexts(Texts):
    """An encoder reads the context, with the end token of its data; the decoder predicts the continuation.

    Attributes:
      source_tokenizer: of the context.
      source_window: positions of the context, at most.
      start: the decoder's first input.
    """

    source_tokenizer: Tokenizer
    source_window: int
    start: int

    def pair(self, context: str, continuation: str) -> tuple[Ids, Ids]:
        context, continuation = move_spaces(context, continuation)
        if not context:
            return pair_with_prefix(self.prefix, self.plain(continuation))
        return self.source(context), self.plain(continuation)

    def scored_row(self, context: Ids, continuation: Ids) -> Row:
        self.fits(continuation)
        size = padded_size(len(continuation), self.window)
        return self.read(context) | {
            "tokens": pad_ids([self.start, *continuation[:-1]], size),
            "targets": pad_ids(continuation, size),
            "weights": pad_ids([1] * len(continuation), size).astype(np.float32),
        }

    def prompt(self, context: str, count: int) -> Row:
        start = {"tokens": np.array([self.start], np.int32), "weights": np.ones((), np.float32)}
        return self.read(self.source(context)) | start

    def longest(self) -> int:
        return max(1, self.window - 1)

    def source(self, context: str) -> Ids:
        """The tokens of a context, which end with the end token."""
        ids = self.whole(context, self.source_tokenizer)
        return ids if ids[-1:] == [self.prefix] else [*ids, self.prefix]

    def read(self, context: Ids) -> Row:
        """What the encoder reads."""
        ids = context[-self.source_window :]
        size = padded_size(len(ids), self.source_window)
        return {"source_tokens": pad_ids(ids, size), "source_segments": pad_ids([1] * len(ids), size)}


def texts_of(data: Dataset, model: Any, field: str, window: int | None = None) -> Texts:
    """How a run's model gets texts.

    Args:
      data: the evaluator's data, which have the tokenizers and the lengths.
      field: the evaluator's field or flag, for messages.
      window: positions at most. If None, a model with learned positions has as many as these, others as in the data.

    Raises:
      UserError: the data are no text whose next tokens are predicted, or a decoder's have no token to begin with.
    """
    form = prompts_for(data, f"{field}.data")
    learned = getattr(getattr(model, "positions", None), "max_length", None)
    window = window or learned
    spec = data.spec()
    (length,) = spec["tokens"].shape
    if isinstance(form, Sources):
        pairs: Pairs = form.pairs
        source_tokenizer, tokenizer = pairs.tokenizers()
        return SourceTexts(
            field=field,
            tokenizer=tokenizer,
            window=window or length,
            prefix=source_tokenizer.special(pairs.end),
            end=form.end,
            source_tokenizer=source_tokenizer,
            source_window=window or spec["source_tokens"].shape[0],
            start=tokenizer.special(pairs.start),
        )
    if not isinstance(form, Beginnings):
        raise UserError(f"{field}.data", "texts alone, for a model that reads no audio", type(data).__name__)
    roles = form.tokenizer.roles()
    start = first_of(form.tokenizer, f"{field}.data") if roles.beginning is None else roles.beginning
    end = form.end or roles.eos
    return DecoderTexts(field=field, tokenizer=form.tokenizer, window=window or length, prefix=start, end=end)


def first_of(tokenizer: Tokenizer, field: str) -> int:
    """The line feed, with which texts begin whose tokenizer has no token for that. Raises UserError if it has none."""
    with contextlib.suppress(UserError, IndexError):
        return int(tokenizer.encode(Beginnings.default)[0])
    names = ", ".join((*NAMES["bos"], *NAMES["eos"]))
    expected = f"a tokenizer with one of the tokens {names}, or with the line feed"
    raise UserError(field, expected, type(tokenizer).__name__)


def move_spaces(context: str, continuation: str) -> tuple[str, str]:
    """The same with the spaces at the end of the context in the continuation."""
    end = len(context.rstrip())
    return context[:end], context[end:] + continuation


def pair_with_prefix(prefix: int, continuation: Ids) -> tuple[Ids, Ids]:
    """A continuation of nothing: its context is the prefix, which it may begin with itself."""
    return ([prefix], continuation) if continuation[:1] != [prefix] else (continuation[:1], continuation[1:])


def padded_size(length: int, most: int) -> int:
    """The power of two that a length is padded to, at least `SHORTEST` and at most `most`: few sizes, few programs."""
    return min(most, max(SHORTEST, 1 << (length - 1).bit_length()))


def pad_ids(ids: Sequence[int], size: int) -> np.ndarray:
    """The ids, int32, and 0 after them."""
    return np.pad(np.asarray(ids, np.int32), (0, size - len(ids)))
