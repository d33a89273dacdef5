"""Texts with a class for each word, as in tagging and named-entity recognition."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

import jax
import numpy as np

from txjax.data.dataset import Example, Source, describing_field
from txjax.data.loading import disk_cache
from txjax.data.text.sentences import Sentences, SentenceSource
from txjax.data.text.token_cache import BATCH, Tokens
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import as_string
from txjax.errors import UserError
from txjax.types import config_field, spec

LAYOUT = 2  # version of the files; caches of other versions are not used


@dataclasses.dataclass
class TokenLabels(Sentences):
    """The words of each record as a sentence of `Sentences`, and the class of each word, as in `ud_pos/en`, `wnut17`.

    The words are encoded as one text, with a space between them. A word's class is the target of one of its tokens; the
    others have weight 0, like the words with a negative class. A text longer than `length` loses its last tokens, and
    targets with them.

    An example: as in `Sentences`, with targets int32 [L], 0 where there is none; weights float32 [L], 1 for targets.

    Attributes:
      text: the set's feature of words, a sequence of texts.
      label: the set's feature of classes, one a word.
      classes: the number of classes. If None, the set's.
      piece: the token of a word that has its class: the "first" one (Devlin et al. 2019, 5.3), or the "last" one, for
        decoders, where only that one has seen the whole word.
    """

    text: tuple[str, ...] = describing_field(("tokens",))
    label: str = describing_field("tags")
    classes: int | None = config_field(None, at_least=2)
    piece: str = config_field("first", choices=("first", "last"))

    feature_kinds: ClassVar[tuple[str, ...]] = ("Sequence",)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"targets": spec((self.length,), "int32")}

    def check(self) -> None:
        super().check()
        self.tokenizer.offsets("")
        if len(self.text) != 1:
            raise UserError("data.text", "one feature of words", self.text)
        features = self.record_split.check()
        for field, name, kind in (
            ("text", self.text[0], "Text"),
            ("label", self.label, "ClassLabel"),
        ):
            inner = records.check_feature(f"data.{field}", name, features, self.feature_kinds).feature
            if type(inner).__name__ != kind:
                raise UserError(f"data.{field}", f"a sequence of {kind}", f"{name}, of {type(inner).__name__}")
            if kind == "ClassLabel" and self.classes not in (None, inner.num_classes):
                raise UserError(
                    "data.classes", f"the {inner.num_classes} classes of {self.record_split.label}", self.classes
                )

    def fill_from_set(self) -> None:
        if self.classes is None:
            features = self.record_split.features()
            labels = records.check_feature("data.label", self.label, features, self.feature_kinds)
            self.classes = int(labels.feature.num_classes)

    def class_names(self) -> tuple[str, ...]:
        return tuple(self.record_split.check()[self.label].feature.names)

    def open(self) -> Source:
        self.check()
        return TokenLabelSource(self)


class Words(NamedTuple):
    """The tokens of a split, and for each token the class of its word; -1 where there is none."""

    tokens: Tokens
    labels: np.ndarray


class TokenLabelSource(SentenceSource):
    """The labelled texts of a split, by record."""

    def __init__(self, text: TokenLabels):
        words = open_words(text)
        super().__init__(text, [words.tokens])
        self._words = words

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = super().example(index, epoch, rng)
        start, end = self._words.tokens.documents[index : index + 2].tolist()
        labels = self._words.labels[start:end][: self._text.length - self._frame.size]
        first = len(self._frame.before)
        targets = np.full(self._text.length, -1, np.int32)
        targets[first : first + len(labels)] = labels
        return example | {"targets": np.maximum(targets, 0), "weights": (targets >= 0).astype(np.float32)}


def open_words(text: TokenLabels) -> Words:
    """The tokens and classes of all records, from the cache.

    Raises:
      UserError: a record with another number of classes than words, or a class outside of the set's; names it.
    """
    source = text.record_split.open([text.text[0], text.label])
    made_from = {
        "split": text.split,
        "features": [text.text[0], text.label],
        "layout": LAYOUT,
        "piece": text.piece,
        "records": source.fingerprint,
        "tokenizer": text.tokenizer.fingerprint(),
    }

    names = text.class_names()

    def build(folder: Path) -> None:
        tokens: list[np.ndarray] = []
        labels: list[np.ndarray] = []
        lengths = []
        with disk_cache.progress(f"words of {source.name} {text.split}", len(source)) as advance:
            for start in range(0, len(source), BATCH):
                read = source.read(start, min(start + BATCH, len(source)))
                for number, record in enumerate(read, start):
                    words = record[text.text[0]]
                    classes = np.asarray(record[text.label], np.int32)
                    if len(words) != len(classes) or classes.max(initial=0) >= len(names):
                        expected = f"a class below {len(names)} for each word in {source.name}"
                        got = f"{len(words)} words with the classes {classes.tolist()[:20]} in {source.place(number)}"
                        raise UserError("data.label", expected, got)
                    written = [as_string(word) for word in words]
                    joined = " ".join(written)
                    ids = text.tokenizer.encode(joined)
                    numbers = words_of(text.tokenizer.offsets(joined), written)
                    lengths.append(len(ids))
                    tokens.append(ids.astype(np.int32))
                    labels.append(by_piece(numbers, classes, text.piece))
                advance(len(read))
        empty = np.zeros(0, np.int32)
        np.save(folder / "tokens.npy", np.concatenate([empty, *tokens]))
        np.save(folder / "labels.npy", np.concatenate([empty, *labels]))
        np.save(folder / "documents.npy", np.cumsum([0, *lengths], dtype=np.int64))

    def load(folder: Path) -> Words:
        tokens, labels, documents = (np.load(folder / f"{name}.npy") for name in ("tokens", "labels", "documents"))
        return Words(Tokens(tokens, documents, folder.name), labels)

    return disk_cache.get_or_build("words", made_from, build, load)


def words_of(offsets: np.ndarray, words: Sequence[str]) -> np.ndarray:
    """The number of the word that each token is of, int [N]: the first one that it has a character of; -1 for none.

    Args:
      offsets: int [N 2], the characters of each token in the words' text, in which a space is between them.
    """
    sizes = np.array([len(word) for word in words], np.int64)
    ends = np.cumsum(sizes + 1) - 1
    numbers = np.searchsorted(ends, offsets[:, 0], side="right")  # the first word that ends after a token's begin
    inside = np.minimum(numbers, max(len(words) - 1, 0))
    overlap = (numbers < len(words)) & (len(words) > 0)
    if len(words):
        overlap &= (offsets[:, 1] > (ends - sizes)[inside]) & (offsets[:, 1] > offsets[:, 0])
    return np.where(overlap, numbers, -1)


def by_piece(numbers: np.ndarray, classes: np.ndarray, piece: str) -> np.ndarray:
    """The class of each word at the first or last of its tokens, -1 at the others, int32 [N].

    Args:
      numbers: of each token's word; -1 for none.
      classes: of each word.
    """
    before = np.roll(numbers, 1)
    after = np.roll(numbers, -1)
    before[:1], after[-1:] = -1, -1
    chosen = (numbers >= 0) & (numbers != (before if piece == "first" else after))
    return np.where(chosen, classes[numbers] if len(classes) else -1, -1).astype(np.int32)
