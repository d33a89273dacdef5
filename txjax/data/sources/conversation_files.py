"""Conversations about images: JSON files of them, as LLaVA's data are, and the images that they name."""

import collections
import dataclasses
import hashlib
import json
import os
import zlib
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import numpy as np

from txjax.data.loading import disk_cache
from txjax.data.sources.columns import Column
from txjax.data.sources.file_checksums import file_checksums, read_unchanged
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_states import FileState
from txjax.data.sources.folder_walks import find_in_folder, folder_path
from txjax.data.sources.json_arrays import JSONArrays
from txjax.data.sources.json_lines import JSONLines
from txjax.data.tfds.records import CorruptData
from txjax.errors import UserError

LAYOUT = 1  # version of the list of images; others are not used
FORM = '{"id": "7", "image": "a.jpg", "conversations": [{"from": "human", "value": "<image>\\nWhat is this?"}, ...]}'


@dataclasses.dataclass
class ConversationFiles(JSONArrays):
    """JSON lists or JSON lines of conversations with the images that they are about, as LLaVA has them.

    A record has `conversations`, the messages; `images`, any number of any size, and `files`, their paths, of `image`,
    which is a path, a list of these, or not there; and the entry's other fields. An image whose file is missing is
    empty.

    Attributes:
      images: the folder of the images, on a disk or in a bucket. If empty, the one that a JSON file is in.
    """

    images: str = ""

    def read_files(self, files: list[FileState]) -> Rows:
        lines = {".jsonl" in PurePath(file.path).suffixes for file in files}
        if len(lines) > 1:
            raise UserError("data.source", "JSON lists alone, or JSON lines alone", self.label)
        rows = JSONLines(self.paths).read_files(files) if lines.pop() else super().read_files(files)
        return ConversationRows(rows, files, self)

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        kinds = {"conversations": "messages", "images": "images", "files": "texts"}
        return {name: Column(name, kind) for name, kind in kinds.items()}

    def place_columns(self, rows: Rows) -> tuple[str, ...]:
        return ("files",)

    def folder_of(self, path: str) -> str:
        """The folder of the images of a file."""
        return folder_path(self.images or os.path.dirname(path) or ".")


class ConversationRows(Rows):
    """Conversations and their images, as `Rows`."""

    def __init__(self, rows: Rows, files: list[FileState], source: ConversationFiles):
        self._rows = rows
        self.files = rows.files
        self.firsts = rows.firsts
        listed, contents = _list_images(rows, files)
        folders = np.repeat([source.folder_of(path) for path in rows.files], np.diff(self.firsts)).tolist()
        names = [[str(PurePosixPath(name)) for name in row] for row in listed]
        self._images = [[f"{folder}/{name}" for name in row] for folder, row in zip(folders, names, strict=True)]
        by_folder = collections.defaultdict[str, list[str]](list)
        for folder, row in zip(folders, names, strict=True):
            by_folder[folder] += row
        states = {folder: find_in_folder(folder, wanted) for folder, wanted in by_folder.items()}
        self._states = {f"{folder}/{name}": state for folder in states for name, state in states[folder].items()}
        checksums = file_checksums(source.label, list(self._states.values()))
        self._checksums = dict(zip(self._states, checksums.tolist(), strict=True))
        digests = [
            zlib.crc32(repr([self._checksums.get(path) for path in paths]).encode(), content)
            for paths, content in zip(self._images, contents, strict=True)
        ]
        self.digests = np.array(digests, np.uint32)
        content = rows.fingerprint.encode() + repr(listed).encode() + self.digests.tobytes()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()

    def row(self, number: int) -> Row:
        row = self._rows.row(number)
        try:
            names = read_entry(row)
        except ValueError as error:
            raise CorruptData(f"{self.place(number)}: {error}") from error
        images = [self._content(number, path) for path in self._images[number]]
        others = {name: value for name, value in row.items() if name != "image"}
        return others | {"images": images, "files": names}

    def place(self, number: int) -> str:
        return self._rows.place(number)

    def _content(self, number: int, path: str) -> bytes:
        """The bytes of an image, none if it is missing. Raises CorruptData if they have changed."""
        if path not in self._states:
            return b""
        self._states[path].check()
        return read_unchanged(self._states[path], self._checksums[path], f"{self.place(number)}: {path}")


def read_entry(entry: Row) -> list[str]:
    """The paths of the images of an entry. Raises ValueError if it is no conversation."""
    messages = entry.get("conversations")
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        raise ValueError(f"expected {FORM}, got {entry!r:.60}")
    paths = entry.get("image") or []
    paths = [paths] if isinstance(paths, str) else paths
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f"expected as image the path of a file, or a list of these, got {paths!r:.60}")
    for path in paths:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
            raise ValueError(f"expected as image a path inside the folder, got {path!r:.60}")
    return paths


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(name), str) for name in ("from", "value"))


def _list_images(rows: Rows, files: list[FileState]) -> tuple[list[list[str]], list[int]]:
    """The paths of the images of each row, and a checksum of the rest of it, from the cache."""
    made_from = {"layout": LAYOUT, "images of": [dataclasses.astuple(file) for file in files]}

    def build(folder: Path) -> None:
        names: list[list[str]] = []
        contents = []
        count = int(rows.firsts[-1])
        with disk_cache.progress(f"images of {files[0].path}", count) as advance:
            for number in range(count):
                try:
                    row = rows.row(number)
                    names.append(read_entry(row))
                except (CorruptData, ValueError):  # is an error again when it is read
                    row = {}
                    names.append([])
                contents.append(zlib.crc32(json.dumps({**row, "image": None}, sort_keys=True).encode()))
                advance(1)
        (folder / "images.json").write_text(json.dumps([names, contents]), encoding="utf-8")

    def load(folder: Path) -> tuple[list[list[str]], list[int]]:
        names, contents = json.loads((folder / "images.json").read_text(encoding="utf-8"))
        return names, contents

    return disk_cache.get_or_build("rows", made_from, build, load)
