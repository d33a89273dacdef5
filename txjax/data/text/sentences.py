"""Sentences and pairs of sentences, one example per record, alone, with a class or with a number, as in GLUE."""

import dataclasses
import hashlib
from typing import ClassVar

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.loading.buckets import Bucketed, Lengths, LengthShares, check_buckets
from txjax.data.text.token_cache import Tokens, open_tokens
from txjax.data.tfds import records
from txjax.data.tokenizers.special_tokens import Frame
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.types import config_field, spec


def _bytes() -> Bytes:
    return Bytes(specials=("[CLS]", "[SEP]"))


@dataclasses.dataclass
class Sentences(RecordDataset):
    """A sentence or a pair of each record, with the tokens that the tokenizer puts around it.

    Of most tokenizers these are BERT's, `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]` (Devlin et al. 2019, 3). A
    `TokenizerFolder` has its file's own, such as RoBERTa's `<s> A </s></s> B </s>`.

    An example longer than `length` loses its last tokens, one by one from the longer sentence, from B if both are
    equally long.

    An example: tokens int32 [L]; segments int32 [L], 1, and 0 for the padding at the end; types int32 [L], 1 for B and
    the [SEP] after it, else 0, or as the tokenizer's file says; weights float32 [L], 1 for tokens of the text.

    Attributes:
      length: positions in an example.
      tokenizer: the tokenizer; it must have [CLS] and [SEP], or say itself what stands around texts.
      text: one text feature of the set, or two for pairs.
      buckets: other lengths, below `length`, that a batch may have: it is padded to the shortest that fits its longest
        example. The step is compiled once for each. () always pads to `length`. `LengthShares()` is a quarter and a
        half of `length`, whatever it is.
      sort_batches: the number of batches whose examples are sorted by length together, to reduce padding; these
        batches are shuffled then. 1 leaves the order as it is. Evaluation keeps the set's order.
    """

    length: int = describing_field(128, at_least=3)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    text: tuple[str, ...] = describing_field(("sentence",))
    buckets: tuple[int, ...] | LengthShares = ()
    sort_batches: int = config_field(1, at_least=1)

    feature_kinds: ClassVar[tuple[str, ...]] = ("Text",)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        arrays = {key: spec((self.length,), "int32") for key in ("tokens", "segments", "types")}
        return {"id": spec((), "int32"), "weights": spec((self.length,), "float32")} | arrays

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def check(self) -> None:
        if len(self.text) not in (1, 2):
            raise UserError("data.text", "one text feature, or two for pairs", self.text)
        self.tokenizer.check()
        self.frame()
        if self.length < self.markers() + len(self.text):
            expected = f"at least {self.markers() + len(self.text)}, for the markers and a token of each sentence"
            raise UserError("data.length", expected, self.length)
        check_buckets(self.bucket_lengths(), self.length, self.sort_batches)
        features = self.record_split.check()
        for feature in self.text:
            records.check_feature("data.text", feature, features, self.feature_kinds)

    def open(self) -> Source:
        self.check()
        return SentenceSource(self)

    def bucket_lengths(self) -> tuple[int, ...]:
        """The lengths below `length` that a batch may have."""
        return self.buckets.lengths(self.length) if isinstance(self.buckets, LengthShares) else self.buckets

    def frame(self) -> Frame:
        """The special tokens around the sentences."""
        return self.tokenizer.frame(len(self.text))

    def markers(self) -> int:
        """The number of these tokens."""
        return self.frame().size


class SentenceSource(Bucketed):
    """The sentences of a split, by record."""

    def __init__(self, text: Sentences, tokens: list[Tokens] | None = None):
        """`tokens`: of each feature. If None, those of the features' texts."""
        self._text = text
        self._tokens = tokens or [open_tokens(text.record_split, feature, text.tokenizer) for feature in text.text]
        self.fingerprint = digest_of([*(tokens.fingerprint for tokens in self._tokens), repr(text.frame())])
        sizes = sum(np.diff(tokens.documents) for tokens in self._tokens) + text.markers()
        cut = {key: 0 for key, x in text.spec().items() if x.shape == (text.length,)}
        self.lengths = (Lengths(np.minimum(sizes, text.length).astype(np.int32), cut),)
        self.buckets = tuple((length,) for length in (*text.bucket_lengths(), text.length))
        self.sort_batches = text.sort_batches
        self._frame = text.frame()

    def __len__(self) -> int:
        return len(self.lengths[0].of)

    def sentences(self, index: int) -> list[np.ndarray]:
        """The tokens of an example's sentences, as many as fit."""
        return self.fitting([tokens.text(index) for tokens in self._tokens])

    def fitting(self, sentences: list[np.ndarray]) -> list[np.ndarray]:
        """As many of the sentences' tokens as fit."""
        return truncate_sentences(sentences, self._text.length - self._text.markers())

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        return self.row(self.sentences(index))

    def row(self, sentences: list[np.ndarray]) -> Example:
        """The example of sentences that fit."""
        length = self._text.length
        row = self._frame.row(sentences)
        size = len(row.ids)
        example = {key: np.zeros(length, np.int32) for key in ("tokens", "segments", "types")}
        example["weights"] = np.zeros(length, np.float32)
        example["tokens"][:size] = row.ids
        example["types"][:size] = row.types
        example["weights"][:size] = row.texts > 0
        example["segments"][:size] = 1
        return example


def truncate_sentences(sentences: list[np.ndarray], length: int) -> list[np.ndarray]:
    """Truncates one or two sentences to at most `length` tokens in all, the longer one first.

    The result is that of BERT's own code, which removes tokens one at a time.
    """
    if len(sentences) == 1:
        return [sentences[0][:length]]
    first, second = map(len, sentences)
    second = min(second, max(length // 2, length - first))
    return [sentences[0][: length - second], sentences[1][:second]]


def digest_of(parts: list[str]) -> str:
    """A digest of texts, for a fingerprint."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
