"""Pairs of texts, a source and a target, for encoder-decoders."""

import contextlib
import dataclasses
import hashlib
import logging
from collections.abc import Iterator

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.loading.buckets import Bucketed, Lengths, check_sorted
from txjax.data.text.templates import Template
from txjax.data.text.token_cache import open_tokens
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.types import config_field, spec

log = logging.getLogger("txjax")


def _bytes() -> Bytes:
    return Bytes(specials=("[START]", "[END]"))


@dataclasses.dataclass
class Pairs(RecordDataset):
    """A source text and a target text of each record, such as a sentence and its translation.

    An example: source_tokens int32 [S], the source and the end token; tokens int32 [L], the start token and the target;
    targets int32 [L], the target and the end token; source_segments and segments int32, 1, and 0 for the padding at the
    end; weights float32 [L], 1 for targets.

    A pair with an empty text, one whose features are all empty, is left out; their number is logged.

    Attributes:
      source_text, target_text: format strings over the set's features: texts, classes by their names, numbers. A task
        of T5 is
        `source_text="stsb sentence1: {sentence1} sentence2: {sentence2}", target_text="{label:.1f}"`.
      source_length: positions S of the source.
      length: positions L of the target.
      tokenizer: of the target, and of the source if that has none; it must have the start and the end token.
      source_tokenizer: of the source; it must have the end token. If None, `tokenizer`.
      start, end: names of the special tokens.
      too_long: what happens to a pair with a text that is longer, with a count in the log: "cut" (it loses its last
        tokens), "drop" (the pair is left out), "refuse" (an error).
      buckets: other pairs (S, L) that a batch may have: it is padded to the smallest, by S * L, that fits its longest
        source and its longest target. The step is compiled once for each. () always pads to the whole lengths.
      sort_batches: the number of batches whose examples are sorted by length together, to reduce padding; these
        batches are shuffled then. 1 leaves the order as it is. Evaluation keeps the set's order.
      longer_than: pairs whose source has at most this many tokens, the end token included, are left out, to evaluate
        long pairs alone.
    """

    source_text: str = describing_field("{source}")
    target_text: str = describing_field("{target}")
    source_length: int = describing_field(128, at_least=2)
    length: int = describing_field(128, at_least=2)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    source_tokenizer: Tokenizer | None = describing_field(None)
    start: str = describing_field("[START]")
    end: str = describing_field("[END]")
    too_long: str = config_field("cut", choices=("cut", "drop", "refuse"))
    buckets: tuple[tuple[int, int], ...] = ()
    sort_batches: int = config_field(1, at_least=1)
    longer_than: int = config_field(0, at_least=0)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        specs = {"id": spec((), "int32"), "weights": spec((self.length,), "float32")}
        specs |= {key: spec((self.length,), "int32") for key in ("tokens", "targets", "segments")}
        return specs | {key: spec((self.source_length,), "int32") for key in ("source_tokens", "source_segments")}

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def source_vocab(self) -> int | None:
        return None if self.source_tokenizer in (None, self.tokenizer) else self.source_tokenizer.vocab()

    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of the source and of the target."""
        return self.source_tokenizer or self.tokenizer, self.tokenizer

    def sides(self) -> tuple[str, str]:
        """The fields of these tokenizers."""
        return ("source_tokenizer" if self.source_tokenizer else "tokenizer"), "tokenizer"

    def check(self) -> None:
        whole = self.source_length, self.length
        for sizes in self.buckets:
            if len(sizes) != 2 or not all(0 < size <= most for size, most in zip(sizes, whole, strict=True)):
                expected = f"pairs of lengths, at most (data.source_length, data.length) = {whole}"
                raise UserError("data.buckets", expected, self.buckets)
        check_sorted(self.buckets, self.sort_batches)
        self.tokenizer.check()
        self.tokenizer.special(self.start)
        for side, tokenizer in zip(self.sides(), self.tokenizers(), strict=True):
            with _name_side(side):
                tokenizer.check()
                tokenizer.special(self.end)
        self.templates()

    def templates(self) -> tuple[Template, Template]:
        """The texts of the source and of the target. Raises UserError if the set has no such features."""
        features = self.record_split.check()
        return Template(self.source_text, features, "data.source_text"), Template(
            self.target_text, features, "data.target_text"
        )

    def open(self) -> Source:
        self.check()
        return PairSource(self)


class PairSource(Bucketed):
    """The pairs of a split, in the order of its records."""

    def __init__(self, pairs: Pairs):
        self._pairs = pairs
        self._templates = pairs.templates()
        opened = []
        for template, tokenizer, side in zip(self._templates, pairs.tokenizers(), pairs.sides(), strict=True):
            with _name_side(side):
                opened.append(open_tokens(pairs.record_split, template, tokenizer))
        self._source, self._target = opened
        of_source = {"source_tokens", "source_segments"}
        of_target = {"tokens", "targets", "segments", "weights"}
        most = pairs.source_length, pairs.length
        sizes = [np.diff(tokens.documents) + 1 for tokens in (self._source, self._target)]  # with one special token
        self._kept = _kept_pairs(pairs, sizes, most)
        made_from = repr([self._source.fingerprint, self._target.fingerprint]).encode() + self._kept.tobytes()
        self.fingerprint = hashlib.blake2b(made_from, digest_size=16).hexdigest()
        self.lengths = tuple(
            Lengths(np.minimum(side_sizes[self._kept], size).astype(np.int32), dict.fromkeys(keys, 0))
            for side_sizes, size, keys in zip(sizes, most, (of_source, of_target), strict=True)
        )
        self.buckets = (*pairs.buckets, most)
        self.sort_batches = pairs.sort_batches
        source_tokenizer, tokenizer = pairs.tokenizers()
        self._source_end = source_tokenizer.special(pairs.end)
        self._start = tokenizer.special(pairs.start)
        self._end = tokenizer.special(pairs.end)

    def __len__(self) -> int:
        return len(self._kept)

    def texts(self, indices: np.ndarray) -> list[tuple[str, str]]:
        """The whole source and target texts of some pairs."""
        pairs = self._pairs
        names = {name for template in self._templates for name in template.names}
        read = pairs.record_split.open(sorted(names))
        selected = (read[int(self._kept[index])] for index in indices)
        source, target = self._templates
        return [(source(record), target(record)) for record in selected]

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        source = self._pairs.source_length
        target = self._pairs.length
        record = int(self._kept[index])
        text = self._source.text(record)[: source - 1]
        answer = self._target.text(record)[: target - 1]
        segments = _pad_row(np.ones(len(answer) + 1, np.int32), target)
        return {
            "source_tokens": _pad_row(np.append(text, np.int32(self._source_end)), source),
            "source_segments": _pad_row(np.ones(len(text) + 1, np.int32), source),
            "tokens": _pad_row(np.append(np.int32(self._start), answer), target),
            "targets": _pad_row(np.append(answer, np.int32(self._end)), target),
            "segments": segments,
            "weights": segments.astype(np.float32),
        }


@contextlib.contextmanager
def _name_side(side: str) -> Iterator[None]:
    """Errors of a tokenizer inside name the field that has it."""
    try:
        yield
    except UserError as error:
        raise error.with_path(f"data.{side}", "data.tokenizer") from None


def _kept_pairs(pairs: Pairs, sizes: list[np.ndarray], most: tuple[int, int]) -> np.ndarray:
    """The numbers of the records whose pairs are examples. Says how many are cut or left out."""
    empty = np.logical_or(*(side_sizes == 1 for side_sizes in sizes))
    long = ~empty & np.logical_or(*(side_sizes > size for side_sizes, size in zip(sizes, most, strict=True)))
    place = pairs.record_split.title
    limits = f"source_length, length = {most}"
    if empty.any():
        log.warning("%s: %d of %d pairs have an empty text and are left out", place, empty.sum(), len(empty))
    if long.any() and pairs.too_long == "refuse":
        longest = tuple(int(side_sizes.max()) for side_sizes in sizes)
        got = f"{long.sum()} of {len(long)} pairs longer, up to {longest}"
        hint = 'or shorten them by too_long = "cut", leave them out by "drop"'
        raise UserError("data.too_long", f"pairs of at most {limits} tokens", got, hint=hint)
    if long.any():
        done = "are left out" if pairs.too_long == "drop" else "lose their last tokens"
        log.warning("%s: %d of %d pairs are longer than %s and %s", place, long.sum(), len(long), limits, done)
    kept = np.flatnonzero(~empty & ~long if pairs.too_long == "drop" else ~empty)
    kept = kept[sizes[0][kept] > pairs.longer_than]
    if not len(kept):
        raise UserError("data", f"at least one pair with texts that fit {limits}", f"none of {len(empty)} in {place}")
    return kept


def _pad_row(ids: np.ndarray, length: int) -> np.ndarray:
    return np.pad(ids, (0, length - len(ids)))
