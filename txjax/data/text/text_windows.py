"""Text as windows of a fixed length, cut from the token cache."""

import dataclasses
import itertools

import jax
import numpy as np

from txjax.data.dataset import Example, RecordDataset, Source, describing_field
from txjax.data.loading.rng import hash32
from txjax.data.text.token_cache import Tokens, open_tokens
from txjax.data.tfds import records
from txjax.data.tokenizers.tokenizer import Bytes, Tokenizer, special_or_none
from txjax.errors import UserError
from txjax.types import config_field, spec


@dataclasses.dataclass
class Text(RecordDataset):
    """Text of one feature as examples of one length.

    Attributes:
      length: tokens in an example.
      tokenizer: the tokenizer.
      feature: the data set's text feature.
      start, end: names of special tokens before and after each document. If None, there are none.
    """

    length: int = describing_field(256, at_least=1)
    tokenizer: Tokenizer = describing_field(factory=Bytes)
    feature: str = describing_field("text")
    start: str | None = None
    end: str | None = None

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def check(self) -> None:
        self.tokenizer.check()
        self.marks()
        features = self.record_split.check()
        records.check_feature("data.feature", self.feature, features, ("Text",))

    def marks(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The tokens before and after each document. Raises UserError if the tokenizer doesn't have them."""
        return special_or_none(self.tokenizer, self.start), special_or_none(self.tokenizer, self.end)

    def tokens(self) -> Tokens:
        """The tokens of the split, from their cache."""
        return open_tokens(self.record_split, self.feature, self.tokenizer, *self.marks())


@dataclasses.dataclass
class TextWindows(Text):
    """Windows of text: window w has the tokens w * length to (w + 1) * length - 1.

    That is epoch 0, which evaluation reads. In every later epoch all windows are shifted by one offset, drawn for the
    epoch from [0, length), so that the text is cut at other positions. For this, less than two windows at the end of
    the text are not read.

    An example: tokens int32 [L], weights float32 [L] (1, and 0 for the tokens `start` and `end`); with `boundaries`
    also segments int32 [L] (the document's number inside the window, from 1) and positions int32 [L] (from 0 at the
    window's start and at each document's).

    Attributes:
      boundaries: whether documents are separate; if not, a window is one contiguous text.
    """

    boundaries: bool = True

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        keys = {"tokens": "int32", "weights": "float32"}
        if self.boundaries:
            keys |= {"segments": "int32", "positions": "int32"}
        return {"id": spec((), "int32")} | {key: spec((self.length,), dtype) for key, dtype in keys.items()}

    def open(self) -> Source:
        self.check()
        return WindowSource(self, self.tokens())

    def stride(self) -> int:
        """The number of tokens from one window's start to the next one's."""
        return self.length

    def reach(self) -> int:
        """The number of tokens that a window reads."""
        return self.length

    def window(self, tokens: Tokens, start: int, rng: np.random.Generator) -> Example:
        """The example whose window starts at token `start`."""
        read = tokens.read(start, self.length)
        marks = [*itertools.chain(*self.marks())]
        example = {"tokens": read, "weights": np.isin(read, marks, invert=True).astype(np.float32)}
        if self.boundaries:
            segments, positions = _documents(tokens, start, self.length)
            example |= {"segments": segments, "positions": positions}
        return example


@dataclasses.dataclass
class NextTokenWindows(TextWindows):
    """Windows of text with `targets` int32 [L], the next token of each position.

    With `boundaries`, the weight is 0 where the target begins another document.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return super().spec() | {"targets": spec((self.length,), "int32")}

    def reach(self) -> int:
        return self.length + 1

    def window(self, tokens: Tokens, start: int, rng: np.random.Generator) -> Example:
        read = tokens.read(start, self.length + 1)
        weights = np.ones(self.length, np.float32)
        example = {"tokens": read[:-1], "targets": read[1:], "weights": weights}
        if self.boundaries:
            segments, positions = _documents(tokens, start, self.length + 1)
            weights[segments[1:] != segments[:-1]] = 0
            example |= {"segments": segments[:-1], "positions": positions[:-1]}
        return example


@dataclasses.dataclass
class SentencePairs(TextWindows):
    """BERT's pairs, [CLS] A [SEP] B [SEP] (Devlin et al. 2019, section 3.1 and appendix A.2).

    The special tokens are those of `Sentences`. A is the first half of those tokens that fit between them, that are in
    the document of its first token. With probability 1/2 B is the second half; else see `other`. `boundaries` changes
    nothing here; `start` and `end` must be None.

    An example: tokens int32 [L]; types int32 [L], 1 for B and the [SEP] after it, else 0 (as in `Sentences`);
    next_sentence int32 [], 1 if B follows A; weights float32 [L], 1 for tokens of the text; segments int32 [L], 1, and
    0 for the padding at the end.

    Attributes:
      other: the pairs that are not in order. "elsewhere": B is as many tokens from a random position of another
        document (of the same, if there is only one). "swapped": A and B change places (Lan et al. 2020, 3.1).
    """

    other: str = config_field("elsewhere", choices=("elsewhere", "swapped"))

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        keys = {"tokens": "int32", "weights": "float32", "segments": "int32", "types": "int32"}
        arrays = {key: spec((self.length,), dtype) for key, dtype in keys.items()}
        return {"id": spec((), "int32"), "next_sentence": spec((), "int32")} | arrays

    def check(self) -> None:
        super().check()
        for field in ("start", "end"):
            if getattr(self, field) is not None:
                raise UserError(f"data.{field}", "None: a pair has its own special tokens", getattr(self, field))
        if self.length < (least := self.tokenizer.frame(2).size + 2):
            raise UserError("data.length", f"at least {least}, for [CLS] A [SEP] B [SEP]", self.length)

    def stride(self) -> int:
        return self.length - self.tokenizer.frame(2).size

    def reach(self) -> int:
        return self.stride()

    def window(self, tokens: Tokens, start: int, rng: np.random.Generator) -> Example:
        first, end = tokens.document(start)
        start = min(start, max(first, end - 2))  # a document's last token alone can't form a pair
        size = min(self.stride(), end - start)
        middle = start + size - size // 2
        first_half = tokens.read(start, middle - start)
        follows = size > 1 and rng.random() < 0.5
        if follows or self.other == "swapped" and size > 1:
            second_half = tokens.read(middle, size // 2)
        else:
            second_half = _elsewhere(tokens, first, end, max(size // 2, 1), rng)
        if not follows and self.other == "swapped":
            first_half, second_half = second_half, first_half
        row = self.tokenizer.frame(2).row([first_half, second_half])
        pair = len(row.ids)
        example = {key: np.zeros(self.length, np.int32) for key in ("tokens", "segments", "types")}
        example["weights"] = np.zeros(self.length, np.float32)
        example["tokens"][:pair] = row.ids
        example["segments"][:pair] = 1
        example["types"][:pair] = row.types
        example["weights"][:pair] = row.texts > 0
        return example | {"next_sentence": np.array(follows, np.int32)}


class WindowSource:
    """The windows of a split, by index."""

    def __init__(self, windows: TextWindows, tokens: Tokens):
        self._windows = windows
        self._tokens = tokens
        self.fingerprint = tokens.fingerprint
        # All windows fit at every offset.
        self._count = (len(tokens) - windows.reach() + 1) // windows.stride()
        if self._count < 1:
            expected = f"a length with two windows in the {len(tokens)} tokens of {windows.name} {windows.split}"
            raise UserError("data.length", expected, windows.length)

    def __len__(self) -> int:
        return self._count

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        stride = self._windows.stride()
        offset = hash32("windows", epoch) % stride if epoch else 0
        return self._windows.window(self._tokens, offset + index * stride, rng)


def _documents(tokens: Tokens, start: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """For each token of a window, its document's number in the window and its position in it, both int32 [length]."""
    first, last = np.searchsorted(tokens.documents, [start + 1, start + length])
    inner = np.unique(tokens.documents[first:last]) - start  # where documents with text begin inside the window
    segments = np.zeros(length, np.int32)
    segments[inner] = 1
    np.cumsum(segments, out=segments)
    begins = np.concatenate([[0], inner])
    positions = np.arange(length) - begins[segments]
    return segments + 1, positions.astype(np.int32)


def _elsewhere(tokens: Tokens, first: int, end: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` tokens (or a whole document, if it has fewer) at a random position outside [first, end)."""
    outside = len(tokens) - (end - first)
    position = int(rng.integers(outside or len(tokens)))
    if outside and position >= first:
        position += end - first
    begin, stop = tokens.document(position)
    begin = max(begin, min(position, stop - size))
    return tokens.read(begin, min(size, stop - begin))
