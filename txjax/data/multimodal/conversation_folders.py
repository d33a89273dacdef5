"""A folder of images and JSON files with conversations about them, as LLaVA's data are."""

import dataclasses
import functools
import hashlib
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from txjax.types import UserError

ONLY = "train"  # the split of a folder with one JSON file, whatever its name
SPLIT = re.compile(r"\w+", re.ASCII)
_FORM = '{"id": "7", "image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, ...]}'


@dataclasses.dataclass(frozen=True)
class StoredConversation:
    """An entry of a file.

    Attributes:
      place: the file, the number in it from 1, and the id, if it has one.
      images: the paths of the images inside the folder.
      messages: (from, value) of each.
    """

    place: str
    images: tuple[str, ...]
    messages: tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True)
class ConversationFolder:
    """The conversations of a folder.

    Attributes:
      splits: the conversations of each split, by its name, in the order of the file.
      digest: a hash of all conversations and of the sizes and times of change of all images, 16 hex digits.
    """

    splits: dict[str, tuple[StoredConversation, ...]]
    digest: str


@functools.cache
def list_conversations(folder: Path) -> ConversationFolder:
    """The conversations of the JSON files in a folder: each file is a split, and named like it; one alone is `train`.

    A process looks once, so that all of it sees one state of the folder.

    Raises:
      UserError: there is no such folder, or a file is no list of conversations; it names the file and the entry.
    """
    if not folder.is_dir():
        raise UserError("data.data_dir", "a folder with images and a JSON file", str(folder))
    files = sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))
    if not files:
        raise UserError("data.data_dir", "a folder with a JSON file for each split", str(folder), hint=f"of {_FORM}")
    if odd := [file for file in files if len(files) > 1 and not SPLIT.fullmatch(file.stem)]:
        raise UserError(str(odd[0]), "a name of letters, digits and _, since the file is a split", odd[0].stem)
    splits = {ONLY if len(files) == 1 else file.stem: _read_file(file) for file in files}
    images = sorted({image for part in splits.values() for entry in part for image in entry.images})
    digest = hashlib.blake2b(repr([(image, _state(folder / image)) for image in images]).encode(), digest_size=8)
    for part in splits.items():
        digest.update(repr(part).encode())
    return ConversationFolder(splits, digest.hexdigest())


def _state(image: Path) -> tuple[int, int] | None:
    """The size and the time of change of a file; None if it is missing."""
    return (image.stat().st_size, image.stat().st_mtime_ns) if image.is_file() else None


def _read_file(file: Path) -> tuple[StoredConversation, ...]:
    """The conversations of a file. Raises UserError unless it is a list of them."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(str(file), f"a JSON list of {_FORM}", hint=f"{type(error).__name__}: {error}") from error
    if not isinstance(entries, list) or not entries:
        raise UserError(str(file), f"a JSON list of {_FORM}", str(entries)[:60])
    return tuple(_read_entry(f"{file} entry {number}", entry) for number, entry in enumerate(entries, 1))


def _read_entry(place: str, entry: Any) -> StoredConversation:
    """A conversation. Raises UserError, which names the entry, for one of another form."""
    try:
        messages = tuple((message["from"], message["value"]) for message in entry["conversations"])
        images = entry.get("image") or []
    except (TypeError, KeyError, AttributeError) as error:
        raise UserError(place, _FORM, str(entry)[:60]) from error
    if not all(isinstance(text, str) for message in messages for text in message):
        raise UserError(place, "texts as from and value", str(messages)[:60])
    paths = [images] if isinstance(images, str) else images
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UserError(place, "as image the path of a file, or a list of these", str(images)[:60])
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise UserError(place, "as image a path inside the folder", path)
    name = f", id {entry['id']}" if "id" in entry else ""
    return StoredConversation(f"{place}{name}", tuple(paths), messages)
