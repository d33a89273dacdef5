"""Texts as rows of one length, each between the special tokens that the tokenizer puts around a text."""

import dataclasses

import numpy as np
from jaxtyping import Int

from txjax.data.dataset import Example
from txjax.data.tokenizers.special_tokens import Frame
from txjax.data.tokenizers.tokenizer import Tokenizer
from txjax.errors import UserError


@dataclasses.dataclass(frozen=True)
class FramedRows:
    """Rows for an encoder of single texts, such as CLIP's.

    Attributes:
      tokenizer: the tokenizer; its frame is around each text, and its token for padding behind it, if it has one.
      length: tokens in a row, L.
    """

    tokenizer: Tokenizer
    length: int

    @property
    def frame(self) -> Frame:
        """The special tokens around a text. Raises UserError if the tokenizer has none."""
        return self.tokenizer.frame(1)

    @property
    def room(self) -> int:
        """The most tokens of a text that a row has room for."""
        return self.length - self.frame.size

    def check(self) -> None:
        """Raises UserError if the tokenizer can't be used, or a row has no room for a token of a text."""
        self.tokenizer.check()
        if self.room < 1:
            expected = f"at least {self.frame.size + 1}, for the markers and a token of the text"
            raise UserError("data.length", expected, self.length)

    def row(self, ids: Int[np.ndarray, "N"]) -> Example:
        """tokens int32 [L], and segments int32 [L], 1 and 0 for padding, of the first tokens of a text."""
        framed = self.frame.row([ids[: self.room]]).ids
        tokens = np.full(self.length, self.tokenizer.roles().pad or 0, np.int32)
        tokens[: len(framed)] = framed
        return {"tokens": tokens, "segments": (np.arange(self.length) < len(framed)).astype(np.int32)}
