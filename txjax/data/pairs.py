"""Pairs of texts, a source and a target, for encoder-decoders."""

import dataclasses
import hashlib

import jax
import numpy as np

from txjax.data import records
from txjax.data.buckets import Bucketed, Lengths, check_sorted
from txjax.data.dataset import Example, Source, TFDSDataset
from txjax.data.tokenizers import Bytes, Tokenizer
from txjax.data.tokens import Tokens, open_tokens
from txjax.types import UserError, config_field, spec


def _bytes() -> Bytes:
    return Bytes(specials=("[START]", "[END]"))


@dataclasses.dataclass
class Pairs(TFDSDataset):
    """A source text and a target text of each record, such as a sentence and its translation.

    An example: source_tokens int32 [S], the source and the end token; tokens int32 [L], the start token and the target;
    targets int32 [L], the target and the end token; source_segments and segments int32, 1, and 0 for the padding at the
    end; weights float32 [L], 1 for targets. A text that is too long loses its last tokens.

    Attributes:
      features: the set's text features of the source and of the target.
      source_length: positions S of the source.
      length: positions L of the target.
      tokenizer: of the target, and of the source if that has none; it must have the start and the end token.
      source_tokenizer: of the source; it must have the end token. If None, `tokenizer`.
      start, end: names of the special tokens.
      buckets: other pairs (S, L) that a batch may have: it is padded to the smallest, by S * L, that fits its longest
        source and its longest target. The step is compiled once for each. () always pads to the whole lengths.
      sort_batches: the number of batches whose examples are sorted by length together, to reduce padding; these
        batches are shuffled then. 1 leaves the order as it is. Evaluation keeps the set's order.
    """

    features: tuple[str, str] = ("source", "target")
    source_length: int = config_field(128, at_least=2)
    length: int = config_field(128, at_least=2)
    tokenizer: Tokenizer = config_field(factory=_bytes)
    source_tokenizer: Tokenizer | None = None
    start: str = "[START]"
    end: str = "[END]"
    buckets: tuple[tuple[int, int], ...] = ()
    sort_batches: int = config_field(1, at_least=1)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        found = {"id": spec((), "int32"), "weights": spec((self.length,), "float32")}
        found |= {key: spec((self.length,), "int32") for key in ("tokens", "targets", "segments")}
        return found | {key: spec((self.source_length,), "int32") for key in ("source_tokens", "source_segments")}

    def vocab(self) -> int | None:
        return max(tokenizer.vocab() for tokenizer in self.tokenizers())

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of the source and of the target."""
        return self.source_tokenizer or self.tokenizer, self.tokenizer

    def check(self) -> None:
        if len(self.features) != 2:
            raise UserError("data.features", "two text features, of the source and of the target", self.features)
        whole = self.source_length, self.length
        for sizes in self.buckets:
            if len(sizes) != 2 or not all(0 < size <= most for size, most in zip(sizes, whole, strict=True)):
                expected = f"pairs of lengths, at most (data.source_length, data.length) = {whole}"
                raise UserError("data.buckets", expected, self.buckets)
        check_sorted(self.buckets, self.sort_batches)
        for tokenizer in self.tokenizers():
            tokenizer.check()
            tokenizer.special(self.end)
        self.tokenizer.special(self.start)
        found = records.check(self.name, self.split, self.data_dir)
        for feature in self.features:
            records.check_feature("data.features", feature, found, ("Text",))

    def open(self) -> Source:
        self.check()
        return PairSource(self)


class PairSource(Bucketed):
    """The pairs of a split, by record."""

    def __init__(self, pairs: Pairs):
        self._pairs = pairs
        self._source, self._target = (
            open_tokens(pairs.name, pairs.split, pairs.data_dir, feature, tokenizer)
            for feature, tokenizer in zip(pairs.features, pairs.tokenizers(), strict=True)
        )
        made_from = repr([self._source.fingerprint, self._target.fingerprint])
        self.fingerprint = hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()
        of_source, of_target = {"source_tokens", "source_segments"}, {"tokens", "targets", "segments", "weights"}
        self.lengths = (
            _lengths(self._source, pairs.source_length, of_source),
            _lengths(self._target, pairs.length, of_target),
        )
        self.buckets, self.sort_batches = (*pairs.buckets, (pairs.source_length, pairs.length)), pairs.sort_batches
        source_tokenizer, tokenizer = pairs.tokenizers()
        self._source_end = source_tokenizer.special(pairs.end)
        self._start, self._end = tokenizer.special(pairs.start), tokenizer.special(pairs.end)

    def __len__(self) -> int:
        return len(self._source.documents) - 1

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        source, target = self._pairs.source_length, self._pairs.length
        text, answer = self._source.text(index)[: source - 1], self._target.text(index)[: target - 1]
        segments = _padded(np.ones(len(answer) + 1, np.int32), target)
        return {
            "source_tokens": _padded(np.append(text, np.int32(self._source_end)), source),
            "source_segments": _padded(np.ones(len(text) + 1, np.int32), source),
            "tokens": _padded(np.append(np.int32(self._start), answer), target),
            "targets": _padded(np.append(answer, np.int32(self._end)), target),
            "segments": segments,
            "weights": segments.astype(np.float32),
        }


def _lengths(tokens: Tokens, most: int, keys: set[str]) -> Lengths:
    """The lengths of texts with one special token more."""
    sizes = np.minimum(np.diff(tokens.documents) + 1, most)
    return Lengths(sizes.astype(np.int32), dict.fromkeys(keys, 0))


def _padded(ids: np.ndarray, length: int) -> np.ndarray:
    return np.pad(ids, (0, length - len(ids)))
