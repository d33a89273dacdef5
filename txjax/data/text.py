"""Text as windows of a fixed length, cut from the token cache."""

import dataclasses

import jax
import numpy as np

from txjax.data import records
from txjax.data.dataset import Example, Source, TFDSDataset
from txjax.data.rng import hash32
from txjax.data.tokenizers import Bytes, Tokenizer
from txjax.data.tokens import Tokens, open_tokens
from txjax.types import UserError, config_field, spec


@dataclasses.dataclass
class Text(TFDSDataset):
    """Text of one feature as examples of one length.

    Attributes:
      length: tokens in an example.
      tokenizer: makes the tokens.
      feature: the data set's text feature.
    """

    length: int = config_field(256, at_least=1)
    tokenizer: Tokenizer = config_field(factory=Bytes)
    feature: str = "text"

    def vocab(self) -> int | None:
        return self.tokenizer.vocab()

    def check(self) -> None:
        self.tokenizer.check()
        features = records.check(self.name, self.split, self.data_dir)
        records.check_feature("data.feature", self.feature, features, ("Text",))

    def tokens(self) -> Tokens:
        """The tokens of the split, from their cache."""
        return open_tokens(self.name, self.split, self.data_dir, self.feature, self.tokenizer)


@dataclasses.dataclass
class TextWindows(Text):
    """Windows of text: window w holds tokens w * length to (w + 1) * length - 1.

    That is epoch 0, which evaluation reads. In every later epoch all windows are shifted by one offset, drawn for the
    epoch from [0, length), so that the model meets the text cut at other places. Less than two windows at the end of
    the text stay unread for it.

    An example: tokens int32 [L], weights float32 [L] (ones); where `boundaries` also segments int32 [L] (the
    document's number inside the window, from 1) and positions int32 [L] (from 0 at the window's start and at each
    document's).

    Attributes:
      boundaries: whether documents are kept apart; without, a window is one run of text.
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
        """Tokens from one window's start to the next one's."""
        return self.length

    def reach(self) -> int:
        """Tokens that a window reads."""
        return self.length

    def window(self, tokens: Tokens, start: int, rng: np.random.Generator) -> Example:
        """The example whose window starts at token `start`."""
        example = {"tokens": tokens.read(start, self.length), "weights": np.ones(self.length, np.float32)}
        if self.boundaries:
            places = _documents(tokens, start, self.length)
            example |= {"segments": places[0], "positions": places[1]}
        return example


@dataclasses.dataclass
class NextTokenWindows(TextWindows):
    """Windows of text and, as `targets` int32 [L], the token that follows each of theirs.

    Where `boundaries`, the weight is 0 where the target begins another document.
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

    A and B share the length - 3 tokens of a window that lie in the document of its first token, A the first half. With
    probability 1/2 B is that second half; else as many tokens of a random place in another document (anywhere, if
    there is one document). The tokenizer must have [CLS] and [SEP]. `boundaries` changes nothing here.

    An example: tokens int32 [L]; types int32 [L], 1 for B and the [SEP] after it, else 0; next_sentence int32 [], 1 if
    B follows A; weights float32 [L], 1 for tokens of the text; segments int32 [L], 1, and 0 for the padding at the end.
    """

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        keys = {"tokens": "int32", "weights": "float32", "segments": "int32", "types": "int32"}
        arrays = {key: spec((self.length,), dtype) for key, dtype in keys.items()}
        return {"id": spec((), "int32"), "next_sentence": spec((), "int32")} | arrays

    def check(self) -> None:
        super().check()
        for name in ("[CLS]", "[SEP]"):
            self.tokenizer.special(name)
        if self.length < 5:
            raise UserError("data.length", "at least 5, for [CLS] A [SEP] B [SEP]", self.length)

    def stride(self) -> int:
        return self.length - 3

    def reach(self) -> int:
        return self.length - 3

    def window(self, tokens: Tokens, start: int, rng: np.random.Generator) -> Example:
        first, end = tokens.document(start)
        start = min(start, max(first, end - 2))  # a document's last token alone makes no pair
        size = min(self.length - 3, end - start)
        middle = start + size - size // 2
        first_half = tokens.read(start, middle - start)
        follows = size > 1 and rng.random() < 0.5
        if follows:
            second_half = tokens.read(middle, size // 2)
        else:
            second_half = _elsewhere(tokens, first, end, max(size // 2, 1), rng)
        start_token, separator = [self.tokenizer.special("[CLS]")], [self.tokenizer.special("[SEP]")]
        pair = np.concatenate([start_token, first_half, separator, second_half, separator])
        second = len(first_half) + 2
        example = {key: np.zeros(self.length, np.int32) for key in ("tokens", "segments", "types")}
        example["weights"] = np.zeros(self.length, np.float32)
        example["tokens"][: len(pair)] = pair
        example["segments"][: len(pair)] = 1
        example["types"][second : len(pair)] = 1
        example["weights"][1 : second - 1] = 1
        example["weights"][second : len(pair) - 1] = 1
        return example | {"next_sentence": np.array(follows, np.int32)}


class WindowSource:
    """The windows of a split, by number."""

    def __init__(self, windows: TextWindows, tokens: Tokens):
        self._windows, self._tokens = windows, tokens
        self.fingerprint = tokens.fingerprint
        # Every offset leaves every window whole.
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
    """For each token of a window, int32 [length]: its document's number in the window, and its place in that."""
    first, last = np.searchsorted(tokens.documents, [start + 1, start + length])
    inner = np.unique(tokens.documents[first:last]) - start  # where documents with text begin inside the window
    segments = np.zeros(length, np.int32)
    segments[inner] = 1
    np.cumsum(segments, out=segments)
    begins = np.concatenate([[0], inner])
    positions = np.arange(length) - begins[segments]
    return segments + 1, positions.astype(np.int32)


def _elsewhere(tokens: Tokens, first: int, end: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` tokens (or a whole document, if that has fewer) of a random place outside [first, end)."""
    outside = len(tokens) - (end - first)
    place = int(rng.integers(outside or len(tokens)))
    if outside and place >= first:
        place += end - first
    begin, stop = tokens.document(place)
    begin = max(begin, min(place, stop - size))
    return tokens.read(begin, min(size, stop - begin))
