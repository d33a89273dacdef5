"""Long documents in windows that overlap: every token is predicted once, from at least so many before it."""

import dataclasses
import hashlib

import jax
import numpy as np

from txjax.data.dataset import Example, Source
from txjax.data.text.packed import cut_documents
from txjax.data.text.text_windows import Text
from txjax.data.text.token_cache import Tokens
from txjax.errors import UserError
from txjax.types import config_field, spec


@dataclasses.dataclass
class SlidingWindows(Text):
    """Windows of one document each that begin `stride` tokens apart (Press et al. 2022).

    In a document's first window every position has weight 1, in later ones the last `stride`, whose targets no earlier
    window has. So every token but a document's first is a target of weight 1 once, after at least
    `length - stride + 1` others or all of its document's. A text of T tokens costs about T / stride windows:
    `stride = length` is no overlap, `stride = 1` gives every token the longest context.

    An example: tokens, targets (the next tokens), segments (1, and 0 for the padding at the document's end) and
    positions (from 0 in the window) int32 [L]; weights float32 [L].

    Attributes:
      stride: tokens from the start of a window to the start of the next, at most `length`.
    """

    stride: int = config_field(128, at_least=1)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        keys = dict.fromkeys(("tokens", "targets", "segments", "positions"), "int32") | {"weights": "float32"}
        return {"id": spec((), "int32")} | {key: spec((self.length,), dtype) for key, dtype in keys.items()}

    def check(self) -> None:
        super().check()
        if self.stride > self.length:
            raise UserError("data.stride", f"at most data.length = {self.length}", self.stride)

    def open(self) -> Source:
        self.check()
        return SlidingSource(self, self.tokens())


class SlidingSource:
    """The windows of a split's documents, in their order."""

    def __init__(self, text: SlidingWindows, tokens: Tokens):
        self._text = text
        self._tokens = tokens
        self._pieces = cut_documents(tokens.documents, text.length, 1, text.stride)
        made_from = repr((tokens.fingerprint, text.length, text.stride))
        self.fingerprint = hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()
        if not len(self._pieces):
            raise UserError("data", "a document of two tokens", f"none in {text.name} {text.split}")

    def __len__(self) -> int:
        return len(self._pieces)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        start, size = self._pieces[index].tolist()
        example = {key: np.zeros(s.shape, s.dtype) for key, s in self._text.spec().items() if key != "id"}
        repeated = 0 if start == self._tokens.document(start)[0] else self._text.length - self._text.stride
        example["tokens"][:size] = self._tokens.read(start, size)
        example["targets"][:size] = self._tokens.read(start + 1, size)
        example["segments"][:size] = 1
        example["positions"][:size] = np.arange(size)
        example["weights"][repeated:size] = 1
        return example
