"""The language of each token: ids by name, of any text data set and of translations (Lample and Conneau 2019)."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax.data.dataset import Dataset, Example, Source, describing_field
from txjax.data.keys import Key
from txjax.data.loading.buckets import Bucketed, Lengths
from txjax.data.text.sentences import Sentences, SentenceSource
from txjax.data.tokenizers.special_tokens import Frame
from txjax.errors import UserError, near_misses
from txjax.types import spec

KEY = "languages"


def language_id(field: str, name: str, languages: tuple[str, ...]) -> int:
    """The id of a language, its index in `languages`. Raises UserError, for `field`, if it has none."""
    if len(set(languages)) < len(languages):
        raise UserError("data.languages", "each language once", languages)
    if name not in languages:
        expected = f"a language with an id, one of data.languages: {', '.join(languages) or 'there is none'}"
        raise UserError(field, expected, name, near_misses(name, languages))
    return languages.index(name)


@dataclasses.dataclass
class InLanguage(Dataset):
    """The examples of a data set of `tokens`, all in one language.

    An example: as in `data`, with languages int32 [L], the language's id.

    Attributes:
      data: any data set whose examples have `tokens` [L].
      language: its name, one of `languages`.
      languages: the names of all languages of the model, in the order of their ids.
    """

    data: Dataset
    language: str
    languages: tuple[str, ...]

    @property
    def tokenizer(self) -> Any:
        """The data set's tokenizer, or None if it has none."""
        return getattr(self.data, "tokenizer", None)

    @property
    def classes(self) -> int | None:
        """The data set's number of classes, or None if it has none."""
        return getattr(self.data, "classes", None)

    @property
    def buckets(self) -> tuple[Any, ...]:
        """The data set's buckets."""
        return getattr(self.data, "buckets", ())

    @property
    def sort_batches(self) -> int:
        """The number of batches whose examples the data set sorts together."""
        return getattr(self.data, "sort_batches", 1)

    def class_names(self) -> tuple[str, ...] | None:
        return self.data.class_names()

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        specs = self.data.spec()
        return specs | {KEY: specs["tokens"]} if "tokens" in specs else specs

    def keys(self) -> dict[str, Key]:
        return self.data.keys()

    def vocab(self) -> int | None:
        return self.data.vocab()

    def check(self) -> None:
        language_id("data.language", self.language, self.languages)
        try:
            self.data.check()
        except UserError as error:
            raise error.with_path("data.data", "data") from None
        if len(getattr(self.data.spec().get("tokens"), "shape", ())) != 1:
            raise UserError("data.data", "a data set with tokens [L]", type(self.data).__name__)

    def open(self) -> Source:
        self.check()
        try:
            source = self.data.open()
        except UserError as error:
            raise error.with_path("data.data", "data") from None
        number = language_id("data.language", self.language, self.languages)
        if isinstance(source, Bucketed):
            return _BucketedInLanguage(source, number)
        return _InLanguageSource(source, number)


class _InLanguageSource:
    """A source whose examples have the id of a language."""

    def __init__(self, source: Any, number: int):
        self._source = source
        self._number = np.int32(number)
        self.fingerprint = f"{source.fingerprint} in language {number}"

    def __len__(self) -> int:
        return len(self._source)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        example = self._source.example(index, epoch, rng)
        return example | {KEY: np.full_like(example["tokens"], self._number)}


class _BucketedInLanguage(_InLanguageSource, Bucketed):
    """The same of a source that the loader cuts: the languages are cut like the tokens."""

    def __init__(self, source: Bucketed, number: int):
        super().__init__(source, number)
        self.buckets = source.buckets
        self.sort_batches = source.sort_batches
        self.lengths = tuple(
            Lengths(
                lengths.of, {**lengths.axes, KEY: lengths.axes["tokens"]} if "tokens" in lengths.axes else lengths.axes
            )
            for lengths in source.lengths
        )


@dataclasses.dataclass
class Bitext(Sentences):
    """A sentence and its translation in one row, for translation language modelling (Lample and Conneau 2019, 3.3).

    `[CLS] A [SEP] [CLS] B [SEP]`: each sentence as it is alone, with positions from 0 and its own language, so that a
    masked word is found in its own sentence and in the translation. A pair longer than `length` loses its last tokens,
    as in `Sentences`. With one feature it is that sentence alone, so that a `Mixture` may have both.

    An example: as in `Sentences`, with positions int32 [L], from 0 in each sentence; languages int32 [L]; types int32
    [L], 1 for all of B.

    Attributes:
      text: the set's features of the sentence and of its translation.
      spoken: the languages of these features, each one of `languages`.
      languages: the names of all languages of the model, in the order of their ids.
    """

    text: tuple[str, ...] = describing_field(("en", "de"))
    spoken: tuple[str, ...] = ("en", "de")
    languages: tuple[str, ...] = ("en", "de")

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {key: spec((self.length,), "int32") for key in ("positions", KEY)}

    def check(self) -> None:
        if len(self.spoken) != len(self.text):
            raise UserError("data.spoken", f"the language of each of {', '.join(self.text)}", self.spoken)
        self.ids()
        super().check()

    def ids(self) -> list[int]:
        """The id of each feature's language. Raises UserError if one has none."""
        return [language_id("data.spoken", name, self.languages) for name in self.spoken]

    def frame(self) -> Frame:
        return self.tokenizer.frame(1)

    def markers(self) -> int:
        return len(self.text) * self.frame().size

    def open(self) -> Source:
        self.check()
        return _BitextSource(self)


class _BitextSource(SentenceSource):
    """The pairs of a split, by record."""

    def __init__(self, text: Bitext):
        super().__init__(text)
        self._ids = text.ids()
        self.fingerprint = f"{self.fingerprint} in languages {self._ids}"

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        length = self._text.length
        example = {key: np.zeros(length, x.dtype) for key, x in self._text.spec().items() if key != "id"}
        begin = 0
        for number, (ids, language) in enumerate(zip(self.sentences(index), self._ids, strict=True)):
            row = self._frame.row([ids])
            end = begin + len(row.ids)
            example["tokens"][begin:end] = row.ids
            example["positions"][begin:end] = np.arange(end - begin)
            example["weights"][begin:end] = row.texts > 0
            for key, value in {"types": number, KEY: language, "segments": 1}.items():
                example[key][begin:end] = value
            begin = end
        return example
