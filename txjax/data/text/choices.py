"""Questions with several answers to choose from."""

import dataclasses
import hashlib

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.text.labelled_text import LabelledText, open_labels
from txjax.data.text.sentences import truncate_sentences
from txjax.data.text.templates import Template
from txjax.data.text.token_cache import open_tokens
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError
from txjax.types import spec

_ROWS = ("tokens", "segments", "types")


def _bytes() -> Bytes:
    return Bytes(specials=("[CLS]", "[SEP]"))


@dataclasses.dataclass
class Choices(RecordDataset):
    """A context and a choice, as a pair of `Sentences`, for each choice of a record; one is right, as in SWAG or COPA.

    (Devlin et al. 2019, 4.4.) A row longer than `length` loses its last tokens, as in `Sentences`.

    An example: choice_tokens, choice_segments, choice_types int32 [O L]; label int32 [], the number of the right one;
    weights float32 [], 1, or 0 if the label is `unlabelled`.

    Attributes:
      context: a format string over the set's features.
      choices: format strings, one a choice: `("{ending0}", "{ending1}")`.
      label: the set's feature with the number of the right choice, a class.
      length: positions in a row.
      tokenizer: the tokenizer, as in `Sentences`.
      unlabelled: the label of examples without a label. If None, all examples have one.
    """

    context: str = describing_field("{context}")
    choices: tuple[str, ...] = describing_field(())
    label: str = describing_field("label")
    length: int = describing_field(128, at_least=5)
    tokenizer: Tokenizer = describing_field(factory=_bytes)
    unlabelled: int | None = -1

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        rows = {f"choice_{key}": spec((len(self.choices), self.length), "int32") for key in _ROWS}
        return {"id": spec((), "int32"), "label": spec((), "int32"), "weights": spec((), "float32")} | rows

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def class_features(self) -> tuple[str, ...]:
        return (self.label,)

    def check(self) -> None:
        if len(self.choices) < 2:
            raise UserError("data.choices", "at least two format strings", self.choices)
        self.tokenizer.check()
        if self.length < (least := self.tokenizer.frame(2).size + 2):
            raise UserError("data.length", f"at least {least}, for the markers and a token of each text", self.length)
        features = self.record_split.check()
        label = records.check_feature("data.label", self.label, features, ("ClassLabel",))
        if label.num_classes != len(self.choices):
            raise UserError("data.choices", f"one for each of the {label.num_classes} labels", len(self.choices))
        self.templates()

    def templates(self) -> tuple[Template, ...]:
        """The texts of the context and of each choice. Raises UserError if the set has no such features."""
        features = self.record_split.check()
        named = {"context": self.context} | {f"choices[{i}]": text for i, text in enumerate(self.choices)}
        return tuple(Template(text, features, f"data.{field}") for field, text in named.items())

    def open(self) -> Source:
        self.check()
        return ChoiceSource(self)


class ChoiceSource:
    """The questions of a split, by record."""

    def __init__(self, text: Choices):
        self._text = text
        self._context, *self._choices = (
            open_tokens(text.record_split, template, text.tokenizer) for template in text.templates()
        )
        labelled = LabelledText(
            text.name,
            text.split,
            text.data_dir,
            source=text.source,
            label=text.label,
            classes=len(text.choices),
            unlabelled=text.unlabelled,
        )
        self._labels = open_labels(labelled)
        self._known = (self._labels != text.unlabelled).astype(np.float32)
        self._frame = text.tokenizer.frame(2)
        made_from = repr(
            [tokens.fingerprint for tokens in (self._context, *self._choices)] + [text.label, repr(self._frame)]
        )
        self.fingerprint = hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        return len(self._labels)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        size = len(self._choices), self._text.length
        rows = {key: np.zeros(size, np.int32) for key in _ROWS}
        context = self._context.text(index)
        for number, choice in enumerate(self._choices):
            texts = truncate_sentences([context, choice.text(index)], self._text.length - self._frame.size)
            row = self._frame.row(texts)
            here = number, slice(len(row.ids))
            rows["tokens"][here] = row.ids
            rows["types"][here] = row.types
            rows["segments"][here] = 1
        answer = {"label": np.asarray(self._labels[index]), "weights": np.asarray(self._known[index])}
        return {f"choice_{key}": x for key, x in rows.items()} | answer
