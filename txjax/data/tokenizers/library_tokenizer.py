"""Tokenizers of the `tokenizers` library."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from txjax.data.tokenizers.special_tokens import Frame, frame_of
from txjax.data.tokenizers.tokenizer import Text, Tokenizer, as_string
from txjax.errors import UserError

PROBES = 100  # tokens that are tried as an example of a text
HIDDEN = "\U0010ffff"  # before the names of special tokens among a model's pieces, so that no text has them


class Library:
    """A `tokenizers.Tokenizer` that neither pads nor truncates.

    Attributes:
      whole: the tokenizer; the names of special tokens in a text are these tokens.
      ids: all ids, ascending.
    """

    def __init__(self, tokenizer: Any):
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.whole = tokenizer
        self.ids = np.array(sorted(set(tokenizer.get_vocab(with_added_tokens=True).values())), np.int64)

    @functools.cached_property
    def plain(self) -> Any:
        """The same without special tokens: their names in a text are text."""
        import tokenizers

        plain = tokenizers.Tokenizer.from_str(hide_special_pieces(self.whole.to_str()))
        plain.encode_special_tokens = True
        there = self.whole.get_vocab(with_added_tokens=True)
        for name, number in plain.get_vocab(with_added_tokens=True).items():
            if there[name.removeprefix(HIDDEN)] != number:
                raise UserError(
                    "data.tokenizer", f"added tokens whose ids don't depend on others, {name} first", number
                )
        return plain

    @functools.cached_property
    def special_names(self) -> dict[str, int]:
        """The ids of special tokens by name."""
        added = self.whole.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}

    @functools.cache  # noqa: B019 - the few tokenizers of a process live as long as it
    def frame(self, texts: int) -> Frame | None:
        """What the post-processor puts around texts, read off an example; None if it is no frame."""
        others = [name for name in list(self.whole.get_vocab())[:PROBES] if name not in self.special_names]
        for probe in ("a", *others):
            if self.whole.encode(probe, add_special_tokens=False).ids:
                row = self.whole.encode(*[probe] * texts)
                frame = frame_of(row.ids, row.type_ids, row.sequence_ids)
                return frame if frame is not None and len(frame.text_types) == texts else None
        return None


@dataclasses.dataclass
class LibraryTokenizer(Tokenizer):
    """Base class of tokenizers of the `tokenizers` library; `encode` doesn't add special tokens.

    Attributes:
      parse_specials: whether names of special tokens in the data's texts, such as `<|user|>` in a template, are these
        tokens; if not, they are text. In prompts they always are tokens.
    """

    parse_specials: bool = dataclasses.field(default=False, kw_only=True)

    def encode(self, text: Text) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[Text]) -> list[np.ndarray]:
        return ids_of(self._encoder(), texts)

    def parse_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return ids_of(self.load().whole, texts)

    def offsets(self, text: Text) -> np.ndarray:
        encoding = self._encoder().encode(as_string(text), add_special_tokens=False)
        return np.asarray(encoding.offsets, np.int64).reshape(-1, 2)

    def decode(self, ids: Iterable[int]) -> str:
        library = self.load()
        parts = known_parts(ids, library.ids)
        return "\ufffd".join(library.whole.decode_batch(parts, skip_special_tokens=False))

    def vocab(self) -> int:
        return int(self.load().ids[-1]) + 1

    def special_ids(self) -> frozenset[int] | None:
        return frozenset(self.load().special_names.values())

    def special_names(self) -> dict[str, int]:
        return self.load().special_names

    def fingerprint(self) -> str:
        made_from = self.vocabulary_digest() + " parse_specials" * self.parse_specials
        return hashlib.blake2b(made_from.encode(), digest_size=16).hexdigest()

    def vocabulary_digest(self) -> str:
        raise NotImplementedError

    def load(self) -> Library:
        """The library's tokenizer."""
        raise NotImplementedError

    def _encoder(self) -> Any:
        """The `tokenizers.Tokenizer` for texts of data."""
        return self.load().whole if self.parse_specials else self.load().plain


def ids_of(encoder: Any, texts: Sequence[Text]) -> list[np.ndarray]:
    """The ids of texts, uint32, without the special tokens that a `tokenizers.Tokenizer` adds."""
    encodings = encoder.encode_batch_fast([as_string(text) for text in texts], add_special_tokens=False)
    return [np.asarray(encoding.ids, np.uint32) for encoding in encodings]


def known_parts(ids: Iterable[int], known: np.ndarray) -> list[list[int]]:
    """The ids, split at (and without) those that are not among the known ones."""
    numbers = np.asarray(list(ids), np.int64)
    parts = np.split(numbers, np.flatnonzero(~np.isin(numbers, known)))
    return [part[1 if i else 0 :].tolist() for i, part in enumerate(parts)]


def hide_special_pieces(settings: str) -> str:
    """The JSON of a tokenizer whose model makes no special token of a text.

    The library has an option to ignore the names of special tokens in a text, but its model may have them as pieces: a
    Unigram model takes `</s>` for the likeliest segmentation of these characters. So these pieces get names that no
    text has, and keep their ids. The piece for unknown text stays.
    """
    written = json.loads(settings)
    model = written["model"]
    pieces = model.get("vocab") or []
    names = {token["content"] for token in written["added_tokens"] if token["special"]}
    if isinstance(pieces, list):  # of Unigram: (piece, score), by id
        unknown = model.get("unk_id")
        inside = {piece for number, (piece, _) in enumerate(pieces) if piece in names and number != unknown}
        model["vocab"] = [(HIDDEN + piece if piece in inside else piece, score) for piece, score in pieces]
    else:
        inside = {piece for piece in pieces if piece in names and piece != model.get("unk_token")}
        model["vocab"] = {HIDDEN + piece if piece in inside else piece: number for piece, number in pieces.items()}
    if "merges" in model:
        merges = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
        model["merges"] = [pair for pair in merges if not inside & {*pair, "".join(pair)}]
    written["added_tokens"] = [token for token in written["added_tokens"] if token["content"] not in inside]
    return json.dumps(written)
