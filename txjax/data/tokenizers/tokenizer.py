"""Tokenizers as config values: bytes, characters. Encoding never loops over tokens in Python."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from txjax.data.tokenizers.special_tokens import Frame, Roles, roles_by_name, sentence_frame
from txjax.errors import UserError, near_misses

Text = str | bytes  # bytes are UTF-8
_SURROGATES = re.compile("[\ud800-\udfff]")


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

    def parse_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """`encode` of texts that people write for a model: names of special tokens in them are these tokens."""
        names = self.special_names()
        if not names:
            return self.encode_batch(texts)
        pattern = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
        return [self._parse(text, pattern, names) for text in texts]

    def _parse(self, text: str, pattern: re.Pattern[str], names: Mapping[str, int]) -> np.ndarray:
        parts = []
        start = 0
        for match in pattern.finditer(text):
            parts += [self.encode(text[start : match.start()]), np.array([names[match.group()]])]
            start = match.end()
        return np.concatenate([*parts, self.encode(text[start:])])

    def encode_prompts(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of texts that a model continues, with the special tokens that the tokenizer adds to a text."""
        return self.parse_batch(texts)

    def offsets(self, text: Text) -> np.ndarray:
        """The characters of a text that each token of `encode` stands for: int [length 2], the first and the next one.

        Raises:
          UserError: the tokenizer does not know them.
        """
        raise UserError("data.tokenizer", "a tokenizer that knows the characters of its tokens", type(self).__name__)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; invalid UTF-8 and invalid ids become U+FFFD."""
        raise NotImplementedError

    def continuation(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """The text that `ids` add to that of the ids `before`: `decode(before) + text == decode([*before, *ids])`."""
        start = self.decode(before)
        whole = self.decode([*before, *ids])
        return whole[len(os.path.commonprefix([start, whole])) :]

    def vocab(self) -> int:
        """The largest id plus 1."""
        raise NotImplementedError

    def special(self, name: str) -> int:
        """The id of a special token. Raises UserError if there is none of that name."""
        raise NotImplementedError

    def special_ids(self) -> frozenset[int] | None:
        """The ids of special tokens, which text is never encoded to (but for unknown text); None if not known."""
        return None

    def special_names(self) -> dict[str, int]:
        """The ids of special tokens by name; empty if they are not known."""
        return {}

    def opening(self) -> tuple[int, ...]:
        """The special tokens before a text that a model continues."""
        return ()

    def roles(self) -> Roles:
        """The parts that special tokens play."""
        return roles_by_name(self.special_names().get)

    def frame(self, texts: int) -> Frame:
        """The special tokens around one text, or around two.

        Raises:
          UserError: the tokenizer has none.
        """
        return sentence_frame(self.special("[CLS]"), self.special("[SEP]"), texts)

    def token_bytes(self) -> np.ndarray | None:
        """The number of UTF-8 bytes of each id, int32 [vocab], 0 for special tokens; None if unknown.

        The numbers of a text's tokens sum to the bytes of the text as `encode` normalizes it.
        """
        return None

    def vocabulary_digest(self) -> str:
        """A hash of which token each id is, which the rows of a table of embeddings depend on."""
        return self.fingerprint()

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
        return np.frombuffer(as_string(text).encode() if isinstance(text, str) else text, np.uint8)

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

    def special_names(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.specials, 256)}


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
        codes = _codes(text)
        alphabet = _codes(self.alphabet)
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

    def special_names(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.specials, len(self.alphabet))}


def find_file(path: str, kind: str) -> Path:
    """The file at `path`. Raises UserError, with near misses, if it doesn't exist."""
    file = Path(path).expanduser()
    if not file.is_file():
        near = near_misses(file.name, os.listdir(file.parent)) if file.parent.is_dir() else []
        raise UserError("data.tokenizer.path", kind, path, near)
    return file


def as_string(text: Text) -> str:
    """The text as a string; invalid UTF-8 becomes U+FFFD, and so do surrogates, which UTF-8 doesn't have."""
    if isinstance(text, bytes):
        return text.decode(errors="replace")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def _codes(text: str) -> np.ndarray:
    """The code points of a text, uint32."""
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), np.uint32)


def special_or_none(tokenizer: Tokenizer, name: str | None) -> tuple[int, ...]:
    """The special token of a name, alone; nothing if the name is None. Raises UserError if the tokenizer has none."""
    return () if name is None else (tokenizer.special(name),)


def special_index(name: str, specials: tuple[str, ...]) -> int:
    """The index of `name` in the specials. Raises UserError, with near misses, if it isn't there."""
    if name not in specials:
        raise UserError(
            "data.tokenizer.specials", f"the token {name} among them", specials, near_misses(name, specials)
        )
    return specials.index(name)
