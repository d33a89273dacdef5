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
        """Raises UserError where this tokenizer cannot work."""

    def encode(self, text: Text) -> np.ndarray:
        """The ids of a text, [length], an unsigned or signed integer dtype."""
        raise NotImplementedError

    def encode_batch(self, texts: Sequence[Text]) -> list[np.ndarray]:
        """`encode` of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; what is no text, or no id, reads as U+FFFD."""
        raise NotImplementedError

    def vocab(self) -> int:
        """One more than the largest id."""
        raise NotImplementedError

    def special(self, name: str) -> int:
        """The id of a special token. Raises UserError where there is none of that name."""
        raise NotImplementedError

    def token_bytes(self) -> np.ndarray | None:
        """Bytes of UTF-8 that each id stands for, int32 [vocab], 0 for special tokens; None where it cannot be said.

        The numbers of a text's tokens add up to the bytes of the text as `encode` normalises it.
        """
        return None

    def fingerprint(self) -> str:
        """A hash of all that `encode` depends on."""
        settings = repr((type(self).__name__, dataclasses.astuple(self)))
        return hashlib.blake2b(settings.encode(), digest_size=16).hexdigest()


@dataclasses.dataclass
class Bytes(Tokenizer):
    """One token a byte of UTF-8.

    Attributes:
      specials: names of further tokens, with ids from 256 on. They never come out of text.
    """

    specials: tuple[str, ...] = ()

    def encode(self, text: Text) -> np.ndarray:
        return np.frombuffer(text.encode() if isinstance(text, str) else text, np.uint8)

    def decode(self, ids: Iterable[int]) -> str:
        table = [bytes([i]) for i in range(256)] + [name.encode() for name in self.specials]
        return b"".join(table[i] if i < len(table) else b"\xff" for i in ids).decode(errors="replace")

    def vocab(self) -> int:
        return 256 + len(self.specials)

    def token_bytes(self) -> np.ndarray | None:
        return np.repeat(np.array([1, 0], np.int32), [256, len(self.specials)])

    def special(self, name: str) -> int:
        return 256 + place(name, self.specials)


@dataclasses.dataclass
class Characters(Tokenizer):
    """One token a character.

    Attributes:
      alphabet: the characters, in the order of their ids; the default is printable ASCII and the line feed.
      specials: names of further tokens, with ids after the alphabet's. They never come out of text.
    """

    alphabet: str = "\n" + "".join(map(chr, range(32, 127)))
    specials: tuple[str, ...] = ()

    def check(self) -> None:
        if not self.alphabet or len(set(self.alphabet)) < len(self.alphabet):
            raise UserError("data.tokenizer.alphabet", "characters, each of them once", self.alphabet)

    def encode(self, text: Text) -> np.ndarray:
        text = as_string(text)
        codes, alphabet = _codes(text), _codes(self.alphabet)
        order = np.argsort(alphabet)
        places = np.searchsorted(alphabet, codes, sorter=order)
        ids = order[np.minimum(places, len(alphabet) - 1)]
        if not np.array_equal(alphabet[ids], codes):
            missing = "".join(sorted(set(text) - set(self.alphabet)))
            hint = f"set alphabet to {''.join(sorted(set(text) | set(self.alphabet)))!r}"
            raise UserError("data.tokenizer.alphabet", "all characters of the text", f"none of {missing!r}", hint=hint)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        table = [*self.alphabet, *self.specials]
        return "".join(table[i] if i < len(table) else "\ufffd" for i in ids)

    def vocab(self) -> int:
        return len(self.alphabet) + len(self.specials)

    def token_bytes(self) -> np.ndarray | None:
        return np.array([*(len(c.encode()) for c in self.alphabet), *(0 for _ in self.specials)], np.int32)

    def special(self, name: str) -> int:
        return len(self.alphabet) + place(name, self.specials)


@dataclasses.dataclass
class LibraryTokenizer(Tokenizer):
    """What all tokenizers of the `tokenizers` library share; its special tokens are not added to what it encodes."""

    def encode(self, text: Text) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[Text]) -> list[np.ndarray]:
        encodings = self.load().encode_batch_fast([as_string(text) for text in texts], add_special_tokens=False)
        return [np.asarray(encoding.ids, np.uint32) for encoding in encodings]

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
    """A `tokenizer.json` of the `tokenizers` library. Its padding, truncation and added special tokens are left out.

    Attributes:
      path: the file.
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
    """The tokenizer of a file that was last changed at that time, so that it is read once."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def find_file(path: str, kind: str) -> Path:
    """The file at `path`. Raises UserError, with near misses, where there is none."""
    file = Path(path).expanduser()
    if not file.is_file():
        near = near_misses(file.name, os.listdir(file.parent)) if file.parent.is_dir() else []
        raise UserError("data.tokenizer.path", kind, path, near)
    return file


def known_parts(ids: Iterable[int], vocab: int) -> list[list[int]]:
    """The ids between those that lie outside [0, vocab)."""
    numbers = np.asarray(list(ids), np.int64)
    parts = np.split(numbers, np.flatnonzero((numbers < 0) | (numbers >= vocab)))
    return [part[1 if i else 0 :].tolist() for i, part in enumerate(parts)]


def as_string(text: Text) -> str:
    """The text as characters; what is no UTF-8 reads as U+FFFD."""
    return text if isinstance(text, str) else text.decode(errors="replace")


def _codes(text: str) -> np.ndarray:
    """The code points of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)


def place(name: str, specials: tuple[str, ...]) -> int:
    """Where `name` is among the specials. Raises UserError, with near misses, where it isn't."""
    if name not in specials:
        raise UserError(
            "data.tokenizer.specials", f"the token {name} among them", specials, near_misses(name, specials)
        )
    return specials.index(name)
