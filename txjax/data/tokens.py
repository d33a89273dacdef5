"""The token cache: a split's tokens in one flat file, read by memory map.

A cache is a folder `tokens/KEY` under the cache directory:

    tokens.bin      all tokens, document after document: uint8, uint16 or uint32, the smallest that holds the vocabulary
    documents.bin   int64: where each document starts in it, and at last where the last one ends
    meta.json       the number of tokens, their dtype, and what they were made from
    digests.json    of the other files

It is written aside and renamed into place, so it is whole or not there at all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from txjax import digest
from txjax.data.cache import cache_dir, lock, progress
from txjax.data.records import Records
from txjax.data.tokenizers import Tokenizer
from txjax.files import flush
from txjax.types import UserError

logger = logging.getLogger(__name__)

LAYOUT = 1  # of the files; caches of another layout are built anew
BATCH = 128  # records encoded at a time, which bounds the memory
DIGEST_LIMIT = 4 << 30  # bytes; of a larger cache only the sizes are verified


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens of a split.

    Attributes:
      tokens: [T], unsigned, on disk.
      documents: int64 [D + 1], on disk: the start of each document, and T.
      fingerprint: a hash of what they were made from: the records and the tokenizer.
    """

    tokens: np.ndarray
    documents: np.ndarray
    fingerprint: str

    def __len__(self) -> int:
        return len(self.tokens)

    def read(self, start: int, length: int) -> np.ndarray:
        """`length` tokens from position `start` on, int32."""
        return self.tokens[start : start + length].astype(np.int32)

    def document(self, position: int) -> tuple[int, int]:
        """Start and end of the document that holds the token at `position`."""
        number = int(np.searchsorted(self.documents, position, side="right")) - 1
        return int(self.documents[number]), int(self.documents[number + 1])


def open_tokens(name: str, split: str, data_dir: str | None, feature: str, tokenizer: Tokenizer) -> Tokens:
    """The tokens of a data set's text, from the cache; builds it where it isn't there or isn't sound.

    Raises:
      UserError: the data is missing, or holds no text.
    """
    records = Records(name, split, data_dir, [feature])
    made_from = {
        "layout": LAYOUT,
        "data": records.name,
        "split": split,
        "feature": feature,
        "records": records.fingerprint,
        "tokenizer": tokenizer.fingerprint(),
    }
    key = hashlib.blake2b(json.dumps(made_from).encode(), digest_size=16).hexdigest()
    folder = cache_dir() / "tokens" / key
    with lock(folder.parent / f".{key}.lock"):
        if folder.exists():
            try:
                return _load(folder, made_from)
            except (OSError, ValueError, KeyError, TypeError) as error:
                logger.warning("the token cache %s is damaged (%s): building it again", folder, error)
        _build(folder, records, feature, tokenizer, made_from)
        return _load(folder, made_from)


def _build(folder: Path, records: Records, feature: str, tokenizer: Tokenizer, made_from: dict[str, Any]) -> None:
    """Encodes all records into `folder`. Only the holder of its lock may call this."""
    aside = folder.with_name(f".{folder.name}.building")
    shutil.rmtree(aside, ignore_errors=True)  # what a killed process left
    aside.mkdir()
    dtype = np.min_scalar_type(tokenizer.vocab() - 1)
    total = 0
    with (aside / "tokens.bin").open("wb") as tokens, (aside / "documents.bin").open("wb") as documents:
        np.zeros(1, np.int64).tofile(documents)
        with progress(f"tokens of {records.name} {made_from['split']}", len(records)) as advance:
            for start in range(0, len(records), BATCH):
                texts = [record[feature] for record in records.read(start, min(start + BATCH, len(records)))]
                for ids in tokenizer.encode_batch(texts):
                    if len(ids):  # an empty document is none
                        ids.astype(dtype).tofile(tokens)
                        total += len(ids)
                        np.array(total).tofile(documents)
                advance(len(texts))
    if total == 0:
        shutil.rmtree(aside)
        raise UserError("data.feature", f"text in {records.name} {made_from['split']}", feature)
    meta = {"made_from": made_from, "dtype": str(dtype), "num_tokens": total}
    (aside / "meta.json").write_text(json.dumps(meta, indent=1))
    digest.commit(aside)
    if folder.exists():  # a damaged one
        shutil.rmtree(folder)
    os.rename(aside, folder)
    flush(folder.parent)


def _load(folder: Path, made_from: dict[str, Any]) -> Tokens:
    """Opens a cache by memory map. Raises ValueError (or OSError, KeyError, TypeError) where it isn't sound."""
    large = sum(file.stat().st_size for file in folder.iterdir()) > DIGEST_LIMIT
    if not large and (faults := digest.faults(folder)):
        raise ValueError("; ".join(faults))
    meta = json.loads((folder / "meta.json").read_text())
    # Plain arrays over the maps: a memmap's own slices cost more than the reading.
    tokens = np.asarray(np.memmap(folder / "tokens.bin", np.dtype(meta["dtype"]), mode="r"))
    documents = np.asarray(np.memmap(folder / "documents.bin", np.int64, mode="r"))
    if meta["made_from"] != made_from or not len(tokens) == documents[-1] == meta["num_tokens"]:
        raise ValueError("meta.json and the files are at odds")
    return Tokens(tokens, documents, folder.name)
