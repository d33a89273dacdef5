"""The captions of images: one or several texts of a record, and how many tokens they have."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import RecordSplit
from txjax.data.text.templates import Template
from txjax.data.text.token_cache import BATCH, open_tokens
from txjax.data.tfds.text_sequences import text_sequences
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError

LAYOUT = 1  # version of the files; caches of other versions are not used


class CaptionTemplate:
    """A format string over a data set's features, as `Template`, of which one may be a sequence of texts.

    A sequence of features has its parts' names after its own: `captions/text`. A record has a text for each element.

    Attributes:
      names: the features that are read.
    """

    def __init__(self, text: str, features: Any):
        """
        Raises:
          UserError: the string is malformed, or has no feature, one that the set doesn't have, or two sequences.
        """
        sequences = text_sequences(features)
        elements = {name: sequence.element for name, sequence in sequences.items()}
        self._template = Template(text, {**features, **elements}, "data.text")
        repeated = [name for name in self._template.names if name in sequences]
        if len(repeated) > 1:
            raise UserError("data.text", f"one sequence of texts, not {' and '.join(repeated)}", text)
        self._repeated = {name: sequences[name] for name in repeated}
        self.names = tuple(sequences[name].feature if name in sequences else name for name in self._template.names)

    @property
    def feature(self) -> str:
        """What the texts are made by, for the key of a cache."""
        return f"texts of {self._template.text}"

    def texts(self, record: dict[str, Any]) -> list[str]:
        """The texts of a record; an empty one where all of its features are."""
        if not self._repeated:
            return [self._template(record)]
        ((name, sequence),) = self._repeated.items()
        return [self._template(record | {name: text}) for text in sequence.texts(record)]

    def __call__(self, record: dict[str, Any]) -> str:
        """The texts of a record as JSON."""
        return json.dumps(self.texts(record), ensure_ascii=False)


class Captions:
    """The captions of a split, by the number of their record.

    Attributes:
      fingerprint: of the texts and the tokenizer.
      records: their number, R.
      sizes: int32 [C], the tokens of all captions, in the order of the records; 0 for an empty one.
      first: int64 [R + 1], the number of each record's first caption, and C.
    """

    def __init__(self, split: RecordSplit, template: CaptionTemplate, tokenizer: Tokenizer):
        self._texts = open_tokens(split, template, Bytes())
        self._tokenizer = tokenizer
        made_from = {"layout": LAYOUT, "texts": self._texts.fingerprint, "tokenizer": tokenizer.fingerprint()}
        self.records = len(self._texts.documents) - 1
        self.sizes, self.first = disk_cache.get_or_build("captions", made_from, self._build, _load)
        self.fingerprint = hashlib.blake2b(json.dumps(made_from).encode(), digest_size=16).hexdigest()

    def texts(self, record: int) -> list[str]:
        """The captions of a record."""
        return json.loads(self._texts.text(record).astype(np.uint8).tobytes())  # type: ignore[no-any-return]

    def ids(self, record: int, caption: int) -> Int[np.ndarray, "N"]:
        """The tokens of a caption of a record, by its number in the split."""
        return self._tokenizer.encode(self.texts(record)[caption - int(self.first[record])])

    def _build(self, folder: Path) -> None:
        sizes: list[int] = []
        counts: list[int] = []
        with disk_cache.progress("captions", self.records) as advance:
            for start in range(0, self.records, BATCH):
                numbers = range(start, min(start + BATCH, self.records))
                by_record = [self.texts(number) for number in numbers]
                texts = [text for captions in by_record for text in captions]
                ids = self._tokenizer.encode_batch(texts)
                sizes += [len(tokens) if text.strip() else 0 for text, tokens in zip(texts, ids, strict=True)]
                counts += map(len, by_record)
                advance(len(numbers))
        np.save(folder / "sizes.npy", np.array(sizes, np.int32))
        np.save(folder / "first.npy", np.cumsum([0, *counts], dtype=np.int64))


def _load(folder: Path) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
    return np.load(folder / "sizes.npy"), np.load(folder / "first.npy")
