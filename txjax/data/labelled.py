"""Sentences and pairs of sentences with a class or a number: the form of GLUE."""

import dataclasses
import hashlib

import jax
import numpy as np

from txjax.data import records
from txjax.data.buckets import Ragged, check_buckets
from txjax.data.dataset import Example, Source, TFDSDataset
from txjax.data.tokenizers import Bytes, Tokenizer
from txjax.data.tokens import open_tokens
from txjax.types import UserError, setting, spec


def _bytes() -> Bytes:
    return Bytes(specials=("[CLS]", "[SEP]"))


@dataclasses.dataclass
class LabelledText(TFDSDataset):
    """BERT's `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`, and what is to be told of it (Devlin et al. 2019, 4).

    What is too long for `length` loses its last tokens, one by one from the longer sentence, from B where both are
    equally long.

    An example: tokens int32 [L]; segments int32 [L], 1, and 0 for the padding at the end; types int32 [L], 1 for B and
    the [SEP] after it, else 0; label int32 [] (or value float32 []); weights float32 [], 1, and 0 where the label is
    `unlabelled`.

    Attributes:
      length: places in an example.
      tokenizer: makes the tokens; it must have [CLS] and [SEP].
      features: one text feature of the set, or two for pairs.
      label_feature: the set's label.
      classes: how many classes the set has; None: the label is a number, `value`.
      unlabelled: the label that means that there is none, as in GLUE's test sets; None: every example has one.
      buckets: lengths below `length` that a batch may have too: it is padded to the shortest that holds its longest
        example. The step is compiled once for each. () always pads to `length`.
      sort_batches: the examples of so many batches are sorted by length, then these batches shuffled, so that less is
        padded; 1 leaves the order as it is. Evaluation keeps the set's order.
    """

    length: int = setting(128, at_least=3)
    tokenizer: Tokenizer = setting(factory=_bytes)
    features: tuple[str, ...] = ("sentence",)
    label_feature: str = "label"
    classes: int | None = setting(2, at_least=1)
    unlabelled: float | None = -1.0
    buckets: tuple[int, ...] = ()
    sort_batches: int = setting(1, at_least=1)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        scalars = {"id": spec((), "int32"), "weights": spec((), "float32")}
        target = {"value": spec((), "float32")} if self.classes is None else {"label": spec((), "int32")}
        return scalars | target | {key: spec((self.length,), "int32") for key in ("tokens", "segments", "types")}

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def check(self) -> None:
        if len(self.features) not in (1, 2):
            raise UserError("data.features", "one text feature, or two for pairs", self.features)
        if self.length < self.markers() + len(self.features):
            expected = f"at least {self.markers() + len(self.features)}, for the markers and a token of each sentence"
            raise UserError("data.length", expected, self.length)
        check_buckets(self.buckets, self.length, self.sort_batches)
        self.tokenizer.check()
        for name in ("[CLS]", "[SEP]"):
            self.tokenizer.special(name)
        features = records.check(self.name, self.split, self.data_dir)
        for feature in self.features:
            records.check_feature("data.features", feature, features, ("Text",))
        kinds = ("Tensor", "Scalar") if self.classes is None else ("ClassLabel",)
        label = records.check_feature("data.label_feature", self.label_feature, features, kinds)
        if self.classes is not None and label.num_classes != self.classes:
            raise UserError("data.classes", f"the {label.num_classes} classes of {self.name}", self.classes)
        if self.classes is None and label.shape != ():
            raise UserError("data.label_feature", f"a single number, not of shape {label.shape}", self.label_feature)

    def open(self) -> Source:
        self.check()
        return LabelledSource(self)

    def markers(self) -> int:
        """Places that [CLS] and [SEP] take."""
        return 1 + len(self.features)


class LabelledSource(Ragged):
    """The labelled sentences of a split, by number."""

    def __init__(self, text: LabelledText):
        self._text = text
        self._records = records.Records(text.name, text.split, text.data_dir, [text.label_feature])
        self._tokens = [
            open_tokens(text.name, text.split, text.data_dir, feature, text.tokenizer) for feature in text.features
        ]
        made_from = repr((self._records.fingerprint, text.label_feature, [t.fingerprint for t in self._tokens]))
        self.fingerprint = hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()
        sizes = sum(np.diff(tokens.documents) for tokens in self._tokens) + text.markers()
        self.lengths = np.minimum(sizes, text.length).astype(np.int32)
        self.buckets, self.sort_batches = (*text.buckets, text.length), text.sort_batches
        self._start, self._separator = (text.tokenizer.special(name) for name in ("[CLS]", "[SEP]"))

    def __len__(self) -> int:
        return len(self._records)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        text = self._text
        sentences = truncated([t.text(index) for t in self._tokens], text.length - text.markers())
        row = np.concatenate([[self._start], *(part for ids in sentences for part in (ids, [self._separator]))])
        example = {key: np.zeros(text.length, np.int32) for key in ("tokens", "segments", "types")}
        example["tokens"][: len(row)] = row
        example["segments"][: len(row)] = 1
        example["types"][len(sentences[0]) + 2 : len(row)] = 1
        label = self._records[index][text.label_feature]
        target = {"value": np.asarray(label, np.float32)} if text.classes is None else {"label": np.int32(label)}
        weights = np.float32(text.unlabelled is None or label != text.unlabelled)
        return example | {key: np.asarray(array) for key, array in (target | {"weights": weights}).items()}


def truncated(sentences: list[np.ndarray], places: int) -> list[np.ndarray]:
    """One or two sentences without their last tokens, so that they take at most `places`; the longer one gives first.

    What is left is what BERT's own code leaves, which takes tokens away one at a time.
    """
    if len(sentences) == 1:
        return [sentences[0][:places]]
    first, second = map(len, sentences)
    second = min(second, max(places // 2, places - first))
    return [sentences[0][: places - second], sentences[1][:second]]
