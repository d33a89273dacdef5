"""SentencePiece models by path, through the `sentencepiece` package."""

import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data.tokenizers.library_tokenizer import known_parts
from txjax.data.tokenizers.tokenizer import Text, Tokenizer, as_string, find_file
from txjax.errors import UserError, near_misses, require


@dataclasses.dataclass
class SentencePieceFile(Tokenizer):
    """A `.model` file of SentencePiece (Kudo & Richardson 2018). Needs the extra `sentencepiece`.

    `encode` doesn't add control symbols (`<s>`, `</s>`); `special` returns their ids.

    Attributes:
      path: the path of the file.
      specials: names of further tokens, with ids after the file's, such as T5's sentinels. Encoding never gives them.
    """

    path: str = ""
    specials: tuple[str, ...] = ()

    def check(self) -> None:
        self._load()

    def encode(self, text: Text) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[Text]) -> list[np.ndarray]:
        ids = self._load().encode([as_string(text) for text in texts], out_type=int)
        return [np.asarray(one, np.uint32) for one in ids]

    def offsets(self, text: Text) -> np.ndarray:
        """As in `Tokenizer`. A token `▁one` stands for the space before the word, too."""
        pieces = self._load().encode(as_string(text), out_type="immutable_proto").pieces
        return np.array([(piece.begin, piece.end) for piece in pieces], np.int64).reshape(-1, 2)

    def decode(self, ids: Iterable[int]) -> str:
        """As in `Tokenizer`; control symbols are decoded to nothing, as by SentencePiece itself."""
        model = self._load()
        names = dict(enumerate(self.specials, model.vocab_size()))
        parts = []
        for special, run in itertools.groupby(map(int, ids), names.__contains__):
            if special:
                parts += [names[number] for number in run]
            else:
                parts.append("\ufffd".join(model.decode(known_parts(run, np.arange(model.vocab_size())))))
        return "".join(parts)

    def vocab(self) -> int:
        return self._load().vocab_size() + len(self.specials)

    def special(self, name: str) -> int:
        model = self._load()
        if name in self.specials:
            return model.vocab_size() + self.specials.index(name)
        piece = model.piece_to_id(name)
        if model.id_to_piece(piece) != name:  # piece_to_id gives the unknown piece for unknown names
            near = near_misses(name, [model.id_to_piece(i) for i in range(model.vocab_size())])
            raise UserError("data.tokenizer.path", f"a model with the piece {name}", self.path, near)
        return piece

    def special_ids(self) -> frozenset[int] | None:
        model = self._load()
        kinds = (model.is_control, model.is_unknown, model.is_unused)
        special = range(model.vocab_size(), self.vocab())
        return frozenset([*(number for number in range(special.start) if any(of(number) for of in kinds)), *special])

    def special_names(self) -> dict[str, int]:
        model = self._load()
        control = {model.id_to_piece(i): i for i in range(model.vocab_size()) if model.is_control(i)}
        return control | {name: number for number, name in enumerate(self.specials, model.vocab_size())}

    def token_bytes(self) -> np.ndarray | None:
        """As in `Tokenizer`. What SentencePiece adds to a text (its dummy prefix, one space) counts as text; the
        unknown piece, which may stand for any text, counts as 0."""
        model = self._load()

        def size(number: int) -> int:
            if model.is_byte(number):
                return 1
            if model.is_control(number) or model.is_unknown(number):
                return 0
            return len(model.id_to_piece(number).replace("▁", " ").encode())

        return np.array([*map(size, range(model.vocab_size())), *(0 for _ in self.specials)], np.int32)

    def fingerprint(self) -> str:
        self.check()
        made_from = Path(self.path).expanduser().read_bytes() + "\n".join(self.specials).encode()
        return hashlib.blake2b(made_from, digest_size=16).hexdigest()

    def _load(self) -> Any:
        require("sentencepiece", "sentencepiece", "data.tokenizer", extra="sentencepiece")
        path = find_file(self.path, "a SentencePiece .model file")
        try:
            return _from_file(str(path), path.stat().st_mtime_ns)
        except (RuntimeError, OSError) as error:
            raise UserError("data.tokenizer.path", "a SentencePiece .model file", self.path) from error


@functools.lru_cache(maxsize=8)
def _from_file(path: str, changed: int) -> Any:
    """The model of a file; cached by path and modification time."""
    import sentencepiece

    return sentencepiece.SentencePieceProcessor(model_file=path)
