"""A tokenizer in the files in which Hugging Face's transformers saves it."""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data.tokenizers.library_tokenizer import Library, LibraryTokenizer
from txjax.data.tokenizers.special_tokens import NAMES, Frame, Roles, roles_by_name
from txjax.data.tokenizers.token_bytes import token_bytes
from txjax.data.tokenizers.tokenizer import find_file
from txjax.data.tokenizers.vocabulary_files import PIECES, VOCABULARIES, put_around, read_vocabulary
from txjax.errors import UserError, near_misses
from txjax.io.json_files import load_json
from txjax.io.text_files import read_text

FILE = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
SPECIALS = "special_tokens_map.json"
GENERATION = "generation_config.json"
TEMPLATE = "chat_template.jinja"


@dataclasses.dataclass
class TokenizerFolder(LibraryTokenizer):
    """A folder with a tokenizer as transformers saves it. Padding and truncation are ignored.

    That is a `tokenizer.json`, or the vocabulary alone (`vocabulary_files`). The files beside it say the parts of the
    special tokens: `tokenizer_config.json`, `special_tokens_map.json`, `generation_config.json` (all tokens that end a
    text) and `config.json`; its post-processor says what stands around a text or a pair.

    Attributes:
      path: the folder, or the file itself, which may have another name.
    """

    path: str = ""

    def check(self) -> None:
        self.load()

    def file(self) -> Path:
        """The path of the `tokenizer.json`, or of the vocabulary in its place. Raises UserError if there is none."""
        path = Path(self.path).expanduser()
        if not path.is_dir() or not self.path:
            return find_file(self.path, f"a {FILE}")
        for files in ((FILE,), *VOCABULARIES):
            if all((path / file).is_file() for file in files):
                return path / files[0]
        there = ", ".join(sorted(file.name for file in path.iterdir())) or "nothing"
        hint = "transformers' AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes one"
        raise UserError("data.tokenizer.path", f"a folder with a {FILE}", f"{self.path}, with {there}", hint=hint)

    def special(self, name: str) -> int:
        number = self.load().whole.token_to_id(name)
        if number is None:
            near = near_misses(name, self.load().whole.get_vocab(with_added_tokens=True))
            raise UserError("data.tokenizer.path", f"a tokenizer with the token {name}", self.path, near)
        return int(number)

    def encode_prompts(self, texts: Sequence[str]) -> list[np.ndarray]:
        """As in `Tokenizer`. A text that begins with the token that the tokenizer adds gets no second one."""
        whole = self.load().whole
        before = self.opening()
        first = whole.id_to_token(before[0]) if before else None
        encodings = [whole.encode(text, add_special_tokens=not first or not text.startswith(first)) for text in texts]
        return [np.asarray(encoding.ids, np.uint32) for encoding in encodings]

    def opening(self) -> tuple[int, ...]:
        return self.frame(1).before

    def roles(self) -> Roles:
        """As in `Tokenizer`. A part that no file names has a token of the usual name, if there is one.

        Where files name a token that begins or that ends a text, they name all that do.
        """
        id_of = self.load().whole.token_to_id
        ids = set(self.load().ids.tolist())
        names = self._names()
        known: dict[str, Any] = {role: id_of(name) for role, name in names.items()}
        by_name = dataclasses.asdict(roles_by_name(id_of))
        ends = self.setting(GENERATION).get("eos_token_id", self.setting("config.json").get("eos_token_id"))
        ends = [end for end in (ends if isinstance(ends, list) else [ends]) if end in ids]
        if {"bos", "eos"} & set(names) or ends:
            by_name |= {"bos": None, "eos": ()}
        if known.get("eos") is not None or ends:
            first = [known["eos"]] if known.get("eos") is not None else []
            known["eos"] = tuple(dict.fromkeys([*first, *ends]))
        return Roles(**by_name | {role: number for role, number in known.items() if number is not None})

    def _names(self) -> dict[str, str]:
        """The names of special tokens by role, as far as a file says them."""
        stated = self.setting(SPECIALS) | self.setting(SETTINGS)
        names = {role: _name(stated.get(f"{role}_token")) for role in NAMES}
        return {role: name for role, name in names.items() if name}

    def frame(self, texts: int) -> Frame:
        """As in `Tokenizer`: of the file's post-processor; if that adds nothing, `[CLS]` and `[SEP]` if they exist.

        Raises:
          UserError: a post-processor that mixes the texts of a pair.
        """
        frame = self.load().frame(texts)
        if frame is None:
            raise UserError("data.tokenizer.path", "a post-processor that puts one text after the other", self.path)
        if not frame.size and {"[CLS]", "[SEP]"} <= set(self.special_names()):
            return super().frame(texts)
        return frame

    def name_of(self, ids: Sequence[int | None]) -> str | None:
        """The name of the first of some tokens; None if there is none."""
        return None if not ids or ids[0] is None else self.load().whole.id_to_token(ids[0])

    def chat_template(self) -> str | None:
        """The Jinja template of conversations, of `chat_template.jinja` or `tokenizer_config.json`; None if no file
        has one."""
        path = self.file().with_name(TEMPLATE)
        if path.is_file():
            return read_text(path)
        template = self.setting(SETTINGS).get("chat_template")
        if isinstance(template, list):  # several, by name
            template = next((entry["template"] for entry in template if entry["name"] == "default"), None)
        return template

    def token_bytes(self) -> np.ndarray | None:
        return token_bytes(self.load().whole)

    def vocabulary_digest(self) -> str:
        self.check()
        beside = "vocab.json" if self.file().name == PIECES else "merges.txt"
        files = [self.file(), *(path for path in [self.file().with_name(beside)] if path.is_file())]
        return hashlib.blake2b(b"".join(path.read_bytes() for path in files), digest_size=16).hexdigest()

    def load(self) -> Library:
        path = self.file()
        settings = json.dumps([self._names(), self.setting(SETTINGS)])
        try:
            return _read(path, path.stat().st_mtime_ns, settings)
        except UserError:
            raise
        except Exception as error:  # `tokenizers` raises bare Exception
            hint = f"it cannot be read: {str(error).splitlines()[0]}"
            raise UserError("data.tokenizer.path", f"a {FILE}", self.path, hint=hint) from error

    def setting(self, name: str) -> dict[str, Any]:
        """The content of a JSON file beside the tokenizer; {} if there is none. Raises UserError if it is damaged."""
        path = self.file().with_name(name)
        return _read_settings(path, path.stat().st_mtime_ns) if path.is_file() else {}


def _name(token: Any) -> str | None:
    """The text of a special token, which a file writes as a text, or as an object with its properties."""
    return token.get("content") if isinstance(token, dict) else token


@functools.lru_cache(maxsize=32)
def _read_settings(path: Path, changed: int) -> dict[str, Any]:
    """The content of a JSON file; cached by path and modification time."""
    try:
        content = load_json(path)
    except ValueError as error:
        raise UserError("data.tokenizer.path", f"JSON in {path}", hint=str(error)) from error
    if not isinstance(content, dict):
        raise UserError("data.tokenizer.path", f"a JSON object in {path}", type(content).__name__)
    return content


@functools.lru_cache(maxsize=8)
def _read(path: Path, changed: int, written: str) -> Library:
    """The tokenizer of a file; cached by path, modification time and settings.

    Args:
      written: JSON of the names of special tokens by role and of the content of tokenizer_config.json.
    """
    import tokenizers

    names, settings = json.loads(written)
    if path.name in {files[0] for files in VOCABULARIES}:
        return Library(read_vocabulary(path, names, settings))
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    if {"add_bos_token", "add_eos_token"} & set(settings):  # transformers then ignores the file's post-processor
        before, after = (names.get(role) if settings.get(f"add_{role}_token") else None for role in ("bos", "eos"))
        put_around(tokenizer, before, after)
    return Library(tokenizer)
