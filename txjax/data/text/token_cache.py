"""The token cache: a split's tokens in one flat file, read by memory map.

A cache is a folder `tokens/KEY` under the cache directory:

    tokens.bin      all tokens, document after document: uint8, uint16 or uint32, the smallest that holds the vocabulary
    documents.bin   int64: the start of each record's text in tokens.bin, and the end of the last one
    meta.json       the number of tokens and their dtype
    made_from.json  the inputs that they depend on
    digests.json    digests of the other files
"""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import Records, RecordSplit
from txjax.data.text.templates import RecordText
from txjax.data.tokenizers.tokenizer import Text, Tokenizer
from txjax.errors import UserError

LAYOUT = 2  # version of the files; caches of other versions are not used
TextOf = Callable[[dict[str, Any]], Text]
Encode = Callable[[list[Text]], list[np.ndarray]]
BATCH = 128  # records encoded at a time, which bounds the memory


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a split.

    Attributes:
      tokens: [T], unsigned, on disk.
      documents: int64 [R + 1], on disk: the start of each record's document, and T. A record without text has an
        empty document, so that document and record numbers agree.
      fingerprint: a hash of the records and the tokenizer.
    """

    tokens: np.ndarray
    documents: np.ndarray
    fingerprint: str

    def __len__(self) -> int:
        return len(self.tokens)

    def read(self, start: int, length: int) -> np.ndarray:
        """`length` tokens from position `start`, int32."""
        return self.tokens[start : start + length].astype(np.int32)

    def text(self, number: int) -> np.ndarray:
        """The tokens of document `number`, int32."""
        start, end = self.documents[number : number + 2].tolist()
        return self.read(start, end - start)

    def document(self, position: int) -> tuple[int, int]:
        """The start and the end of the document of the token at `position`."""
        number = int(np.searchsorted(self.documents, position, side="right")) - 1
        return int(self.documents[number]), int(self.documents[number + 1])


def open_tokens(
    split: RecordSplit,
    feature: str | RecordText,
    tokenizer: Tokenizer,
    start: tuple[int, ...] = (),
    end: tuple[int, ...] = (),
) -> Tokens:
    """The tokens of a data set's text, from the cache; builds it if it is missing or damaged.

    Args:
      split: the records.
      feature: the text feature, or what makes a text of several features, such as a `Template`.
      start, end: special tokens before and after each document that has text.

    Raises:
      UserError: the data is missing, or has no text.
    """
    text: TextOf = operator.itemgetter(feature) if isinstance(feature, str) else feature
    written, names = (feature, (feature,)) if isinstance(feature, str) else (feature.feature, feature.names)
    records = split.open(names)
    made_from = {
        "layout": LAYOUT,
        "split": split.split,
        "feature": written,
        "records": records.fingerprint,
        "tokenizer": tokenizer.fingerprint(),
    }
    if start or end:
        made_from["around"] = [start, end]
    encode = functools.partial(_encode, tokenizer, start, end)
    return disk_cache.get_or_build(
        "tokens", made_from, lambda folder: _build(folder, records, split.split, text, tokenizer.vocab(), encode), _load
    )


def _encode(tokenizer: Tokenizer, start: tuple[int, ...], end: tuple[int, ...], texts: list[Text]) -> list[np.ndarray]:
    """The tokens of documents, each between the special tokens; none of a document without text."""
    ids = tokenizer.encode_batch(texts)
    if not start and not end:
        return ids
    return [np.concatenate([start, text, end]).astype(np.int64) if len(text) else text for text in ids]


def _build(folder: Path, records: Records, split: str, text: TextOf, vocab: int, encode: Encode) -> None:
    """Encodes all records into `folder`. Raises UserError for an id outside of the vocabulary, naming the record."""
    dtype = np.min_scalar_type(vocab - 1)
    total = 0
    with (folder / "tokens.bin").open("wb") as tokens, (folder / "documents.bin").open("wb") as documents:
        np.zeros(1, np.int64).tofile(documents)
        with disk_cache.progress(f"tokens of {records.name} {split}", len(records)) as advance:
            for start in range(0, len(records), BATCH):
                texts = [text(record) for record in records.read(start, min(start + BATCH, len(records)))]
                ids = encode(texts)
                joined = np.concatenate(ids)
                if len(joined) and not 0 <= joined.min() <= joined.max() < vocab:
                    _refuse(ids, vocab, records, start)
                joined.astype(dtype).tofile(tokens)
                ends = total + np.cumsum([len(text) for text in ids], dtype=np.int64)
                ends.tofile(documents)
                total = int(ends[-1])
                advance(len(texts))
    if total == 0:
        raise UserError("data", f"text in {records.name} {split}", "empty texts")
    (folder / "meta.json").write_text(
        json.dumps({"dtype": str(dtype), "num_tokens": total}, indent=1), encoding="utf-8"
    )


def _refuse(ids: list[np.ndarray], vocab: int, records: Records, start: int) -> NoReturn:
    """Raises UserError for the first record, from `start`, with an id outside of the vocabulary."""
    for number, text in enumerate(ids, start):
        if outside := [int(i) for i in text if not 0 <= i < vocab]:
            expected = f"a tokenizer with ids from 0 to {vocab - 1}, as its vocab() says"
            raise UserError("data.tokenizer", expected, f"{outside[0]} in {records.place(number)}")
    raise AssertionError("all ids are inside")


def _load(folder: Path) -> Tokens:
    """Opens a cache by memory map. Raises ValueError (or OSError, KeyError, TypeError) if it is damaged."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    # Plain arrays over the maps: slicing a memmap costs more than reading.
    tokens = np.asarray(np.memmap(folder / "tokens.bin", np.dtype(meta["dtype"]), mode="r"))
    documents = np.asarray(np.memmap(folder / "documents.bin", np.int64, mode="r"))
    if not len(tokens) == documents[-1] == meta["num_tokens"]:
        raise ValueError("meta.json doesn't match the files")
    return Tokens(tokens, documents, folder.name)
