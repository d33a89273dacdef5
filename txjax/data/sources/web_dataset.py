"""WebDataset: tar files whose neighbouring members of one name make a record, read in place.

The index is a folder `members/KEY` under the cache directory: `members.npz` with the place, the size and the checksum
of each member, and the first member of each record; `names.json` with the names of records and members.
"""

import dataclasses
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tarfile import BLOCKSIZE, NUL, TarError, TarFile
from typing import Any

import numpy as np
from jaxtyping import Int64, UInt32

from txjax.data.loading import disk_cache
from txjax.data.sources.columns import Column
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState
from txjax.data.sources.json_lines import parse_object
from txjax.data.sources.media_folders import AudioFolder, ImageFolder
from txjax.data.sources.unpacked import unpack
from txjax.data.tfds.records import ChangedData, CorruptData
from txjax.errors import UserError

LAYOUT = 1  # version of the index; others are not used
COLUMNS = {"txt": "text", "text": "text", "cls": "label"} | {
    suffix[1:]: kind.medium for kind in (ImageFolder, AudioFolder) for suffix in kind.suffixes
}
KEY = "key"  # the column of the record's name
JSON = "json"  # a member whose fields are columns


@dataclasses.dataclass
class WebDataset(FileSource):
    """Tar files, also compressed, as the library `webdataset` has them.

    Members that follow each other and have the same name up to the first dot make a record. What the names end with
    says what they are: `jpg`, `png` and others `image`; `wav` and `flac` `audio`; `txt` `text`; `cls` `label`; the
    fields of `json` are columns of their names. `key` is the name of the record. Two members with one column of
    different values are refused, and so are links and members with other endings. Nothing is unpacked.
    """

    def read_files(self, files: list[FileState]) -> Rows:
        return TarRows(files)

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        assert isinstance(rows, TarRows)
        return {name: Column(name, name) for name in rows.media}

    def place_columns(self, rows: Rows) -> tuple[str, ...]:
        return (KEY,)


@dataclasses.dataclass(frozen=True)
class TarIndex:
    """The members of several tar files.

    Attributes:
      starts, sizes: int64 [S], the place of each member's content in its file, and its bytes.
      checksums: uint32 [S], CRC-32 of these bytes.
      firsts: int64 [N + 1], the first member of each record, and S.
      counts: int64 [P], the records of each file.
      keys: the name of each record.
      endings: of each member's name.
    """

    starts: Int64[np.ndarray, "S"]
    sizes: Int64[np.ndarray, "S"]
    checksums: UInt32[np.ndarray, "S"]
    firsts: Int64[np.ndarray, "N+1"]
    counts: Int64[np.ndarray, "P"]
    keys: list[str]
    endings: list[str]


class TarRows(Rows):
    """The records of tar files, as `Rows`.

    Attributes:
      media: the columns that are images or recordings.
    """

    def __init__(self, files: Sequence[FileState]):
        self._states = tuple(files)
        self._stored = unpack(files)
        self._index = open_tar_index(self._stored)
        self.files = tuple(file.path for file in files)
        self.firsts = np.cumsum(np.append(0, self._index.counts)).astype(np.int64)
        columns = {COLUMNS.get(ending) for ending in self._index.endings}
        self.media = [kind.medium for kind in (ImageFolder, AudioFolder) if kind.medium in columns]
        bounds = zip(self._index.firsts[:-1], self._index.firsts[1:], strict=True)
        contents = [self._index.checksums[first:last].tobytes() for first, last in bounds]
        self.digests = np.array([zlib.crc32(content) for content in contents], np.uint32)
        content = repr((self._index.keys, self._index.endings, self._index.counts.tolist())).encode()
        content += self._index.checksums.tobytes() + self._index.firsts.tobytes()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()

    def row(self, number: int) -> Row:
        row: Row = {KEY: self._index.keys[number]}
        for member in range(*self._index.firsts[number : number + 2].tolist()):
            content = self._content(number, member)
            ending = self._index.endings[member]
            try:
                for column, value in self._columns(ending, content).items():
                    if row.setdefault(column, value) != value:
                        raise ValueError(f"{column!r} is another member's column, too, with another value")
            except ValueError as error:
                raise CorruptData(f"{self.place(number)}.{ending}: {error}") from error
        return row

    def _columns(self, ending: str, content: bytes) -> Row:
        """The columns of a member. Raises ValueError if it is no text or no object."""
        if ending == JSON:
            return parse_object(content.decode("utf-8-sig"))
        column = COLUMNS[ending]
        return {column: content if column in self.media else content.decode("utf-8-sig").strip()}

    def place(self, number: int) -> str:
        return f"{self.files[self._file(number)]}: {self._index.keys[number]}"

    def _file(self, number: int) -> int:
        return int(np.searchsorted(self.firsts, number, side="right")) - 1

    def _content(self, number: int, member: int) -> bytes:
        """The bytes of a member. Raises CorruptData if they have changed."""
        file = self._file(number)
        self._states[file].check()
        start = int(self._index.starts[member])
        for content in self._stored[file].reads(start, start + int(self._index.sizes[member])):
            if zlib.crc32(content) == self._index.checksums[member]:
                return content
        place = f"{self.place(number)}.{self._index.endings[member]}"
        raise ChangedData(f"{place}: its bytes have changed since it was indexed")


def open_tar_index(files: Sequence[FileState]) -> TarIndex:
    """The index of tar files, from the cache; built if it is missing, or if a file has changed.

    Raises:
      UserError: a file is no whole tar file, or has members that are no part of a record.
    """
    made_from = {"layout": LAYOUT, "files": [dataclasses.astuple(file) for file in files]}

    def build(folder: Path) -> None:
        members: list[list[int]] = []
        firsts: list[int] = []
        counts: list[int] = []
        keys: list[str] = []
        endings: list[str] = []
        with disk_cache.progress(f"index of {files[0].path}", len(files)) as advance:
            for file in files:
                before = len(keys)
                for name, *member in file.verified(lambda file: list(read_members(file))):
                    key, ending = _split_name(file.path, name)
                    if len(keys) == before or key != keys[-1]:
                        keys.append(key)
                        firsts.append(len(members))
                    members.append(member)
                    endings.append(ending)
                counts.append(len(keys) - before)
                advance(1)
        starts, sizes, checksums = np.array(members, np.int64).reshape(-1, 3).T
        arrays: dict[str, Any] = dict(starts=starts, sizes=sizes, checksums=checksums.astype(np.uint32))
        np.savez(folder / "members.npz", **arrays, firsts=[*firsts, len(members)], counts=counts)
        (folder / "names.json").write_text(json.dumps({"keys": keys, "endings": endings}), encoding="utf-8")

    def load(folder: Path) -> TarIndex:
        names = json.loads((folder / "names.json").read_text(encoding="utf-8"))
        with np.load(folder / "members.npz", allow_pickle=False) as arrays:
            return TarIndex(**{name: arrays[name] for name in arrays}, **names)

    return disk_cache.get_or_build("members", made_from, build, load)


def read_members(file: FileState) -> Iterator[tuple[str, int, int, int]]:
    """The name of each file in a tar file, the place of its content, its size and its checksum.

    Raises:
      UserError: one is a link, or the archive is damaged.
    """
    path = file.path
    try:
        with file.open() as opened, TarFile.open(fileobj=opened, mode="r:") as archive:
            for member in archive:
                if member.isdir():
                    continue
                part = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                if part is None:
                    raise UserError("data.source", "a tar file of plain files", f"{path}: {member.name}")
                content = part.read()
                if len(content) != member.size:
                    raise UserError("data.source", "a whole tar file", f"{path}: {member.name} is cut")
                yield member.name, member.offset_data, member.size, zlib.crc32(content)
            end = archive.offset  # a member whose header is cut ends the loop as the end of the archive does
        if file.read(end, end + BLOCKSIZE) != NUL * BLOCKSIZE:
            raise UserError("data.source", "a whole tar file", f"{path}: no end after {end} bytes")
    except (TarError, OSError, EOFError) as error:
        raise UserError("data.source", "a whole tar file", f"{path}: {error}") from error


def _split_name(path: str, name: str) -> tuple[str, str]:
    """The name of a member up to the first dot of its last part, and what follows the dot, in small letters.

    Raises:
      UserError: nothing says what the member is.
    """
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    if ending.lower() not in (*COLUMNS, JSON):
        expected = f"members whose names end with one of {', '.join(sorted((*COLUMNS, JSON)))}"
        raise UserError("data.source", expected, f"{path}: {name}")
    return f"{folder}{slash}{stem}", ending.lower()
