"""Texts of an evaluation harness as rows of a batch, with the tokens that its Hugging Face backend scores."""

import abc
import contextlib
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data import Dataset, Pairs, Tokenizer
from txjax.data.tokenizers import LibraryTokenizer, TokenizerFile
from txjax.decoding import Beginnings, prompts_for, until
from txjax.decoding.prompts import Sources
from txjax.types import UserError

Ids = list[int]
Row = dict[str, np.ndarray]

# Names of the tokens that begin and end a text, where no file says which they are.
STARTS = ("<|begin_of_text|>", "<s>", "<bos>", "[BOS]", "[START]")
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]", "[END]", "<end>")
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
      end: the token that ends a generated text. If None, the data have none.
    """

    field: str
    tokenizer: Tokenizer
    window: int
    prefix: int
    end: int | None

    @abc.abstractmethod
    def pair(self, context: str, continuation: str) -> tuple[Ids, Ids]:
        """The tokens of a context, one at least, and of its continuation. Spaces between them are the second's."""

    @abc.abstractmethod
    def scored(self, context: Ids, continuation: Ids) -> Row:
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
        """The tokens of a text with the special ones that its tokenizer's file adds, unless the text begins with one.

        Args:
          tokenizer: of the text. If None, `tokenizer`.
        """
        tokenizer = tokenizer or self.tokenizer
        if isinstance(tokenizer, LibraryTokenizer) and not text.startswith(tokenizer.decode([self.prefix])):
            return list(tokenizer.load().encode(text).ids)
        return self.plain(text, tokenizer)

    def plain(self, text: str, tokenizer: Tokenizer | None = None) -> Ids:
        """The tokens of a text alone."""
        return [int(i) for i in (tokenizer or self.tokenizer).encode(text)]

    def text(self, tokens: np.ndarray) -> str:
        """The text of generated tokens before the first `end`, without special tokens."""
        specials = self.tokenizer.special_ids() or frozenset()
        return self.tokenizer.decode(int(i) for i in until(tokens, self.end) if int(i) not in specials)

    def fits(self, continuation: Ids) -> None:
        """Raises UserError if the window is too short for a continuation."""
        if len(continuation) > self.window:
            hint = f"an answer of a task has {len(continuation)} tokens"
            raise UserError(f"{self.field}.window", f"at least {len(continuation)}", self.window, hint=hint)


@dataclasses.dataclass(frozen=True)
class DecoderTexts(Texts):
    """A decoder reads the context and the continuation as one text."""

    def pair(self, context: str, continuation: str) -> tuple[Ids, Ids]:
        context, continuation = moved(context, continuation)
        if not context:
            return begun(self.prefix, self.plain(continuation))
        whole, before = self.whole(context + continuation), self.whole(context)
        return before, whole[len(before) :]

    def scored(self, context: Ids, continuation: Ids) -> Row:
        self.fits(continuation)
        ids = (context + continuation)[-(self.window + 1) :]
        size = padded_size(len(ids) - 1, self.window)
        weights = np.zeros(size, np.float32)
        weights[len(ids) - 1 - len(continuation) : len(ids) - 1] = 1
        return {"tokens": filled(ids[:-1], size), "targets": filled(ids[1:], size), "weights": weights}

    def prompt(self, context: str, count: int) -> Row:
        ids = (self.whole(context) or [self.prefix])[-(self.window - count) :]
        size = padded_size(len(ids), self.window - count)
        before = size - len(ids)
        real = np.arange(size, dtype=np.int32) - before
        return {
            "tokens": np.roll(filled(ids, size), before),
            "segments": (real >= 0).astype(np.int32),
            "positions": np.maximum(real, 0),
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
        context, continuation = moved(context, continuation)
        if not context:
            return begun(self.prefix, self.plain(continuation))
        return self.source(context), self.plain(continuation)

    def scored(self, context: Ids, continuation: Ids) -> Row:
        self.fits(continuation)
        size = padded_size(len(continuation), self.window)
        return self.read(context) | {
            "tokens": filled([self.start, *continuation[:-1]], size),
            "targets": filled(continuation, size),
            "weights": filled([1] * len(continuation), size).astype(np.float32),
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
        return {"source_tokens": filled(ids, size), "source_segments": filled([1] * len(ids), size)}


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
    window, spec = window or learned, data.spec()
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
    start, end = borders(form.tokenizer)
    if start is None:
        start = first_of(form.tokenizer, f"{field}.data")
    return DecoderTexts(field=field, tokenizer=form.tokenizer, window=window or length, prefix=start, end=end)


def borders(tokenizer: Tokenizer) -> tuple[int | None, int | None]:
    """The tokens that begin and that end a text; None where the tokenizer has none.

    A `tokenizer_config.json` next to a `tokenizer.json` says which. Else they are the first of `STARTS` and `ENDS` that
    the tokenizer has. A text that has an end alone begins with it, as GPT-2's (and as in HFLM).
    """
    named = _named(tokenizer)
    starts = [named["bos_token"]] if named.get("bos_token") else [] if named.get("eos_token") else STARTS
    ends = [named["eos_token"]] if named.get("eos_token") else ENDS
    start, end = (_first_known(tokenizer, names) for names in (starts, ends))
    return (end if start is None else start), end


def first_of(tokenizer: Tokenizer, field: str) -> int:
    """The line feed, with which texts begin whose tokenizer has no token for that. Raises UserError if it has none."""
    with contextlib.suppress(UserError):
        return int(tokenizer.encode(Beginnings.default)[0])
    expected = f"a tokenizer with one of the tokens {', '.join((*STARTS, *ENDS))}, or with the line feed"
    raise UserError(field, expected, type(tokenizer).__name__)


def _named(tokenizer: Tokenizer) -> dict[str, str]:
    """The special tokens that the file next to a tokenizer's names, by role; {} without one."""
    if not isinstance(tokenizer, TokenizerFile):
        return {}
    path = Path(tokenizer.path).expanduser().with_name("tokenizer_config.json")
    if not path.is_file():
        return {}
    found = json.loads(path.read_text())
    names = {role: found.get(role) for role in ("bos_token", "eos_token")}
    return {role: name["content"] if isinstance(name, dict) else name for role, name in names.items() if name}


def _first_known(tokenizer: Tokenizer, names: Sequence[str]) -> int | None:
    for name in names:
        with contextlib.suppress(UserError):
            return tokenizer.special(name)
    return None


def moved(context: str, continuation: str) -> tuple[str, str]:
    """The same with the spaces at the end of the context in the continuation."""
    end = len(context.rstrip())
    return context[:end], context[end:] + continuation


def begun(prefix: int, continuation: Ids) -> tuple[Ids, Ids]:
    """A continuation of nothing: its context is the prefix, which it may begin with itself."""
    return ([prefix], continuation) if continuation[:1] != [prefix] else (continuation[:1], continuation[1:])


def padded_size(length: int, most: int) -> int:
    """The power of two that a length is padded to, at least `SHORTEST` and at most `most`: few sizes, few programs."""
    return min(most, max(SHORTEST, 1 << (length - 1).bit_length()))


def filled(ids: Sequence[int], size: int) -> np.ndarray:
    """The ids, int32, and 0 after them."""
    return np.pad(np.asarray(ids, np.int32), (0, size - len(ids)))
