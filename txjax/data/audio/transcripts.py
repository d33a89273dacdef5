"""The transcripts of a split by record: normalised texts, their symbols, and how many these are."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int32

from txjax import tree
from txjax.data.audio.text_normalization import TextNormalization
from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import RecordSplit
from txjax.data.text.templates import Template
from txjax.data.text.token_cache import open_tokens
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer
from txjax.errors import UserError

LAYOUT = 1  # version of the files; caches of other versions are not used
SPACE = " "  # between the transcripts of a chain


class Transcripts:
    """The transcripts of a split.

    Attributes:
      fingerprint: of the texts, their normalisation and the tokenizer.
      sizes: int32 [N], the symbols of each transcript; 0 if it has none or is unusable.
      spaced_sizes: int32 [N], the symbols of each transcript after a space, as in a chain; 0 if the tokenizer has none.
      faults: why a transcript is unusable, by the number of its record.
    """

    def __init__(self, split: RecordSplit, text: Template, normalization: TextNormalization, tokenizer: Tokenizer):
        self._texts = open_tokens(split, text, Bytes())
        self._normalization = normalization
        self._tokenizer = tokenizer
        made_from = {
            "layout": LAYOUT,
            "texts": self._texts.fingerprint,
            "normalization": tree.to_json(normalization),
            "tokenizer": tokenizer.fingerprint(),
        }
        cached = disk_cache.get_or_build("transcripts", made_from, self._build, _load)
        self.sizes, self.spaced_sizes, self.faults = cached
        content = json.dumps(made_from).encode()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()

    def text(self, number: int) -> str:
        """The normalised transcript of a record."""
        return self._normalization(self._texts.text(number).astype(np.uint8).tobytes().decode(errors="replace"))

    def symbols(self, numbers: Sequence[int]) -> Int32[np.ndarray, "N"]:
        """The symbols of the transcripts of some records, with a space between two."""
        texts = [SPACE * bool(place) + self.text(number) for place, number in enumerate(numbers)]
        return np.concatenate([self._tokenizer.encode(text) for text in texts]).astype(np.int32)

    def _build(self, folder: Path) -> None:
        count = len(self._texts.documents) - 1
        sizes = np.zeros((count, 2), np.int32)
        faults = {}
        spaced = can_encode(self._tokenizer, SPACE)
        with disk_cache.progress("transcripts", count) as advance:
            for number in range(count):
                text = self.text(number)
                if fault := self._fault(text):
                    faults[number] = fault
                else:
                    sizes[number, 0] = len(self._tokenizer.encode(text))
                    sizes[number, 1] = len(self._tokenizer.encode(SPACE + text)) if spaced else 0
                advance(1)
        np.save(folder / "sizes.npy", sizes)
        (folder / "faults.json").write_text(json.dumps(faults), encoding="utf-8")

    def _fault(self, text: str) -> str:
        """Why a text is no transcript; empty if it is."""
        if not text:
            return "an empty transcript"
        if can_encode(self._tokenizer, text):
            return ""
        outside = "".join(sorted({c for c in text if not can_encode(self._tokenizer, c)}))
        return f"letters outside of the alphabet: {outside!r} in {text!r}"


def can_encode(tokenizer: Tokenizer, text: str) -> bool:
    """Whether a tokenizer encodes a text without an error and without its token for unknown text."""
    try:
        return tokenizer.roles().unk not in tokenizer.encode(text).tolist()
    except UserError:
        return False


def _load(folder: Path) -> tuple[Int32[np.ndarray, "N"], Int32[np.ndarray, "N"], dict[int, str]]:
    faults = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
    sizes, spaced_sizes = np.load(folder / "sizes.npy").T
    return sizes, spaced_sizes, {int(number): text for number, text in faults.items()}
