"""Tokenizers as config values: bytes, characters, any `tokenizer.json`. Encoding never loops over tokens in Python."""

import dataclasses
import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data.token_bytes import token_bytes
from txjax.types import UserError, near_misses

Text = str | bytes  # bytes are UTF-8


@dataclasses.dataclass
class Tokenizer:
    """Text to token ids and back."""

    def check(self) -> None:
        """Raises UserError if this tokenizer cannot be used."""

    def encode(self, text: Text) -> np.ndarray:
        """The ids of a text, [length], of a signed or unsigned integer dtype."""
        raise NotImplementedError

    def encode_batch(self, texts: Sequence[Text]) -> list[np.ndarray]:
        """`encode` of each text."""
        return [self.encode(text) for text in texts]

    def offsets(self, text: Text) -> np.ndarray:
        """The characters of a text that each token of `encode` stands for: int [length 2], the first and the next one.

        Raises:
          UserError: the tokenizer does not know them.
        """
        raise UserError("data.tokenizer", "a tokenizer that knows the characters of its tokens", type(self).__name__)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; invalid UTF-8 and invalid ids become U+FFFD."""
        raise NotImplementedError

    def vocab(self) -> int:
        """The largest id plus 1."""
        raise NotImplementedError

    def special(self, name: str) -> int:
        """The id of a special token. Raises UserError if there is none of that name."""
        raise NotImplementedError

    def special_ids(self) -> frozenset[int] | None:
        """The ids of special tokens, which text is never encoded to (but for unknown text); None if not known."""
        return None

    def token_bytes(self) -> np.ndarray | None:
        """The number of UTF-8 bytes of each id, int32 [vocab], 0 for special tokens; None if unknown.

        The numbers of a text's tokens sum to the bytes of the text as `encode` normalizes it.
        """
        return None

    def fingerprint(self) -> str:
        """A hash of all that `encode` depends on."""
        settings = repr((type(self).__name__, dataclasses.astuple(self)))
        return hashlib.blake2b(settings.encode(), digest_size=16).hexdigest()


@dataclasses.dataclass
class Bytes(Tokenizer):
    """One token per byte of UTF-8.

    Attributes:
      specials: names of further tokens, with ids from 256. Encoding never gives them.
    """

    specials: tuple[str, ...] = ()

    def encode(self, text: Text) -> np.ndarray:
        return np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)

    def offsets(self, text: Text) -> np.ndarray:
        first = (self.encode(text) & 0xC0) != 0x80  # of a character's bytes
        numbers = np.cumsum(first) - 1
        return np.stack([numbers, numbers + 1], -1)

    def decode(self, ids: Iterable[int]) -> str:
        table = [bytes([i]) for i in range(256)] + [name.encode() for name in self.specials]
        return b"".join(table[i] if i < len(table) else b"\xff" for i in ids).decode(errors="replace")

    def vocab(self) -> int:
        return 256 + len(self.specials)

    def token_bytes(self) -> np.ndarray | None:
        return np.repeat(np.array([1, 0], np.int32), [256, len(self.specials)])

    def special(self, name: str) -> int:
        return 256 + special_index(name, self.specials)

    def special_ids(self) -> frozenset[int] | None:
        return frozenset(range(256, self.vocab()))


@dataclasses.dataclass
class Characters(Tokenizer):
    """One token per character.

    Attributes:
      alphabet: the characters, in the order of their ids; the default is printable ASCII and the line feed.
      specials: names of further tokens, with ids after the alphabet's. Encoding never gives them.
    """

    alphabet: str = "\n" + "".join(map(chr, range(32, 127)))
    specials: tuple[str, ...] = ()

    def check(self) -> None:
        if not self.alphabet or len(set(self.alphabet)) < len(self.alphabet):
            raise UserError("data.tokenizer.alphabet", "distinct characters", self.alphabet)

    def encode(self, text: Text) -> np.ndarray:
        text = as_string(text)
        codes, alphabet = _codes(text), _codes(self.alphabet)
        order = np.argsort(alphabet)
        indices = np.searchsorted(alphabet, codes, sorter=order)
        ids = order[np.minimum(indices, len(alphabet) - 1)]
        if not np.array_equal(alphabet[ids], codes):
            missing = "".join(sorted(set(text) - set(self.alphabet)))
            hint = f"set alphabet to {''.join(sorted(set(text) | set(self.alphabet)))!r}"
            raise UserError("data.tokenizer.alphabet", "all characters of the text", f"none of {missing!r}", hint=hint)
        return ids

    def offsets(self, text: Text) -> np.ndarray:
        return np.arange(len(self.encode(text)))[:, None] + np.arange(2)

    def decode(self, ids: Iterable[int]) -> str:
        table = [*self.alphabet, *self.specials]
        return "".join(table[i] if i < len(table) else "\ufffd" for i in ids)

    def vocab(self) -> int:
        return len(self.alphabet) + len(self.specials)

    def token_bytes(self) -> np.ndarray | None:
        return np.array([*(len(c.encode()) for c in self.alphabet), *(0 for _ in self.specials)], np.int32)

    def special(self, name: str) -> int:
        return len(self.alphabet) + special_index(name, self.specials)

    def special_ids(self) -> frozenset[int] | None:
        return frozenset(range(len(self.alphabet), self.vocab()))


@dataclasses.dataclass
class LibraryTokenizer(Tokenizer):
    """Base class of tokenizers of the `tokenizers` library; `encode` doesn't add special tokens."""

    def encode(self, text: Text) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[Text]) -> list[np.ndarray]:
        encodings = self.load().encode_batch_fast([as_string(text) for text in texts], add_special_tokens=False)
        return [np.asarray(encoding.ids, np.uint32) for encoding in encodings]

    def offsets(self, text: Text) -> np.ndarray:
        encoding = self.load().encode(as_string(text), add_special_tokens=False)
        return np.asarray(encoding.offsets, np.int64).reshape(-1, 2)

    def decode(self, ids: Iterable[int]) -> str:
        tokenizer = self.load()
        parts = known_parts(ids, tokenizer.get_vocab_size(with_added_tokens=True))
        return "\ufffd".join(tokenizer.decode_batch(parts, skip_special_tokens=False))

    def vocab(self) -> int:
        return 1 + max(self.load().get_vocab(with_added_tokens=True).values())

    def load(self) -> Any:
        """The `tokenizers.Tokenizer`."""
        raise NotImplementedError


@dataclasses.dataclass
class TokenizerFile(LibraryTokenizer):
    """A `tokenizer.json` of the `tokenizers` library. Its padding, truncation and added special tokens are ignored.

    Attributes:
      path: the path of the file.
    """

    path: str = ""

    def check(self) -> None:
        self.load()

    def special(self, name: str) -> int:
        found = self.load().token_to_id(name)
        if found is None:
            near = near_misses(name, self.load().get_vocab(with_added_tokens=True))
            raise UserError("data.tokenizer.path", f"a tokenizer with the token {name}", self.path, near)
        return found

    def special_ids(self) -> frozenset[int] | None:
        added = self.load().get_added_tokens_decoder()
        return frozenset(number for number, token in added.items() if token.special)

    def token_bytes(self) -> np.ndarray | None:
        return token_bytes(self.load())

    def fingerprint(self) -> str:
        self.check()
        return hashlib.blake2b(Path(self.path).expanduser().read_bytes(), digest_size=16).hexdigest()

    def load(self) -> Any:
        path = find_file(self.path, "a tokenizer.json")
        try:
            return _from_file(str(path), path.stat().st_mtime_ns)
        except Exception as error:  # `tokenizers` raises bare Exception
            hint = f"it cannot be read: {str(error).splitlines()[0]}"
            raise UserError("data.tokenizer.path", "a tokenizer.json", self.path, hint=hint) from error


@functools.lru_cache(maxsize=8)
def _from_file(path: str, changed: int) -> Any:
    """The tokenizer of a file; cached by path and modification time."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def find_file(path: str, kind: str) -> Path:
    """The file at `path`. Raises UserError, with near misses, if it doesn't exist."""
    file = Path(path).expanduser()
    if not file.is_file():
        near = near_misses(file.name, os.listdir(file.parent)) if file.parent.is_dir() else []
        raise UserError("data.tokenizer.path", kind, path, near)
    return file


def known_parts(ids: Iterable[int], vocab: int) -> list[list[int]]:
    """The ids, split at (and without) those outside [0, vocab)."""
    numbers = np.asarray(list(ids), np.int64)
    parts = np.split(numbers, np.flatnonzero((numbers < 0) | (numbers >= vocab)))
    return [part[1 if i else 0 :].tolist() for i, part in enumerate(parts)]


def as_string(text: Text) -> str:
    """The text as a string; invalid UTF-8 becomes U+FFFD."""
    return text if isinstance(text, str) else text.decode(errors="replace")


def _codes(text: str) -> np.ndarray:
    """The code points of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)


def special_index(name: str, specials: tuple[str, ...]) -> int:
    """The index of `name` in the specials. Raises UserError, with near misses, if it isn't there."""
    if name not in specials:
        raise UserError(
            "data.tokenizer.specials", f"the token {name} among them", specials, near_misses(name, specials)
        )
    return specials.index(name)
