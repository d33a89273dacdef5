"""Folders of images or of recordings as their users keep them, read where they lie."""

import dataclasses
import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import ClassVar

import numpy as np

from txjax.data.sources.coco_listings import OBJECTS, find_coco, read_coco
from txjax.data.sources.columns import Column
from txjax.data.sources.file_checksums import file_checksums, read_unchanged
from txjax.data.sources.file_listings import METADATA, Entry, find_listings, other_tables, read_listing
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState
from txjax.data.sources.folder_walks import FolderWalk, folder_path, walk_folder
from txjax.data.sources.remote_files import is_url
from txjax.data.sources.split_names import split_in_name, split_name
from txjax.errors import UserError, join_names, near_misses

logger = logging.getLogger("txjax")


@dataclasses.dataclass
class MediaFolder(FileSource):
    """Base class of sources of files of one kind in a folder: in CLASS/FILE or SPLIT/CLASS/FILE, or listed.

    A record has the content of the file; its path in the folder; and `label`, the name of the folder that it is in, as
    a class. With a listing it has the columns of its row there in the place of `label`. Listings are `metadata.jsonl`
    or `metadata.csv`, in the folder or in one for each split, as `datasets` reads them, which list all files; or else
    JSON lines and tables with a split or `manifest` in their names (`train.jsonl`, `test_manifest.json`), as NeMo has
    them, which may list some. Other tables in the folder are not read, with a warning. The column `file_name` has the
    path of the file, from the listing's folder, or else the first one with such paths, by whose name the content is a
    feature then.

    Attributes:
      paths: the folder, on a disk or in a bucket.
      listings: the paths of listings in the folder. If there are none, the names of the files say which these are.
    """

    listings: tuple[str, ...] = ()

    medium: ClassVar[str]  # the name of the content, and its kind of column
    path_feature: ClassVar[str]  # the name of the file's path; {} is the name of the content
    suffixes: ClassVar[tuple[str, ...]]

    def find(self) -> list[FileState]:
        is_there = isinstance(self.paths, str) and (is_url(self.paths) or os.path.isdir(self.folder()))
        if not (self.paths and is_there):
            hint = "" if self.paths else "--config.data.source=FOLDER"
            raise UserError("data.source", f"a folder of {self.medium} files", str(self.paths) or None, hint=hint)
        walk = walk_folder(self.folder())
        walk.check_links((*self.suffixes, ".json", ".jsonl", ".csv"))
        media = [name for name in walk.files if name.lower().endswith(self.suffixes)]
        if not media:
            raise UserError("data.source", f"a folder with files of {', '.join(self.suffixes)}", str(self.paths))
        return [walk.state(name) for name in (*media, *self.find_listings(walk))]

    def find_listings(self, walk: FolderWalk) -> list[str]:
        """The paths in the folder of the files that say something of the others."""
        for name in self.listings:
            if name not in walk.files:
                near = near_misses(name, [path for path in walk.files if not path.lower().endswith(self.suffixes)])
                raise UserError("data.source.listings", f"files in {self.paths}", name, near)
        return list(self.listings) or find_listings(walk)

    def read_listings(self, files: Mapping[str, FileState], listings: list[str]) -> tuple[list[Entry], tuple[str, ...]]:
        """The files that are listed, and the names of the classes of objects, if there are any.

        Args:
          files: in the folder, by their paths in it.
          listings: of these, the listings.
        """
        faults: list[str] | None = [] if self.corrupt == "skip" else None
        arguments = self.suffixes, self.medium, faults
        entries = [entry for name in listings for entry in read_listing(self.folder(), files, name, *arguments)]
        if faults:
            text = "%d rows of the lists of %s are broken and left out, the first: %s"
            logger.warning(text, len(faults), self.paths, faults[0])
        return entries, ()

    def folder(self) -> str:
        """The path of the folder, or its URL."""
        return folder_path(str(self.paths))

    def read_files(self, files: list[FileState]) -> Rows:
        folder = self.folder()
        states = {file.path.removeprefix(f"{folder}/"): file for file in files}
        media = [name for name in states if name.lower().endswith(self.suffixes)]
        listings = list(states)[len(media) :]
        if others := other_tables(walk_folder(folder), listings):
            text = "%s in %s is no list by its name, and is not read; data.source.listings names lists"
            logger.warning(text, join_names(others, 5), self.paths)
        if not listings:
            return MediaRows(self, states, [self.in_class(name, media[0], others) for name in media])
        entries, classes = self.read_listings(states, listings)
        if PurePath(listings[0]).name in METADATA and (missing := set(media) - {entry.name for entry in entries}):
            if self.corrupt == "refuse":
                got = f"none for {sorted(missing)[0]}"
                raise UserError("data.source", f"a line of {listings[0]} for each file", got)
            text = "%d files in %s have no line of %s and are left out, the first: %s"
            logger.warning(text, len(missing), self.paths, listings[0], sorted(missing)[0])
        if len(features := sorted({entry.feature for entry in entries})) > 1:
            raise UserError("data.source", "one column of paths in all listings", ", ".join(features))
        return MediaRows(self, states, entries, classes)

    def in_class(self, name: str, first: str, others: list[str]) -> Entry:
        """The entry of a file in the folder of its class. Raises UserError unless it is as deep as the first one.

        Args:
          others: the tables in the folder that are no listings.
        """
        if "/" not in name:
            expected = f"files in folders of their classes, or {METADATA[0]}"
            hint = f"listings=({others[0]!r},) reads {others[0]}" if others else ""
            raise UserError("data.source", expected, f"{name} in {self.paths}", hint=hint)
        if name.count("/") != first.count("/"):
            expected = "files in CLASS/FILE, or all in SPLIT/CLASS/FILE"
            raise UserError("data.source", expected, f"{first} and {name} in {self.paths}")
        return Entry(name, self.medium, {"label": name.split("/")[-2]}, "")

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        assert isinstance(rows, MediaRows)
        content = {rows.feature: Column(rows.feature, self.medium)}
        if rows.object_classes:
            content[OBJECTS] = Column(OBJECTS, "objects", rows.object_classes)
        return content if rows.classes is None else content | {"label": Column("label", "class", rows.classes)}

    def values_are_texts(self, rows: Rows) -> bool:
        assert isinstance(rows, MediaRows)
        return any(entry.listing.endswith(".csv") for entry in rows.entries)

    def place_columns(self, rows: Rows) -> tuple[str, ...]:
        assert isinstance(rows, MediaRows)
        return (rows.path_feature,)

    def splits_of(self, rows: Rows) -> list[str | None]:
        assert isinstance(rows, MediaRows)
        return [_split_of(entry) for entry in rows.entries]


@dataclasses.dataclass
class ImageFolder(MediaFolder):
    """Images of a folder. A record has `image`, and `file`, its path; see `MediaFolder`.

    Annotations like COCO's, such as `train/_annotations.coco.json` or `annotations/instances_train2017.json`, are read
    before other listings. A record has `objects` then, with `bbox`, `label`, `area` and `is_crowd`, for `Detections`.
    """

    medium: ClassVar[str] = "image"
    path_feature: ClassVar[str] = "file"
    suffixes: ClassVar[tuple[str, ...]] = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")

    def find_listings(self, walk: FolderWalk) -> list[str]:
        return (not self.listings and list(find_coco(walk))) or super().find_listings(walk)

    def read_listings(self, files: Mapping[str, FileState], listings: list[str]) -> tuple[list[Entry], tuple[str, ...]]:
        folder = self.folder()
        if listings[0] not in find_coco(walk_folder(folder)):
            return super().read_listings(files, listings)
        read = [read_coco(folder, files, name, self.medium) for name in listings]
        for name, listing in zip(listings, read, strict=True):
            if listing.classes != read[0].classes:
                expected = f"the classes of {listings[0]} in all annotations"
                raise UserError("data.source", expected, f"{folder}/{name}: {', '.join(listing.classes[:5])}")
        return [entry for listing in read for entry in listing.entries], read[0].classes


@dataclasses.dataclass
class AudioFolder(MediaFolder):
    """Recordings of a folder, WAV and FLAC. A record has `audio`, and `audio/filename`, its path; see `MediaFolder`."""

    medium: ClassVar[str] = "audio"
    path_feature: ClassVar[str] = "{}/filename"
    suffixes: ClassVar[tuple[str, ...]] = (".wav", ".flac")


class MediaRows(Rows):
    """The files of a folder, as `Rows`.

    Attributes:
      entries: the files.
      feature: the name of their content.
      path_feature: the name of their paths.
      classes: the names of the folders that files are in; None with listings.
      object_classes: the names of the classes of objects in images.
    """

    def __init__(
        self,
        source: MediaFolder,
        states: dict[str, FileState],
        entries: list[Entry],
        object_classes: tuple[str, ...] = (),
    ):
        self.object_classes = object_classes
        self.entries = entries
        self.feature = entries[0].feature
        listed = any(entry.listing for entry in entries)
        self.classes = None if listed else tuple(sorted({entry.row["label"] for entry in entries}))
        self._states = [states[entry.name] for entry in entries]
        self._listings = {entry.listing: states[entry.listing] for entry in entries if entry.listing}
        self.path_feature = source.path_feature.format(self.feature)
        self.files = tuple(state.path for state in self._states)
        self.firsts = np.arange(len(entries) + 1, dtype=np.int64)
        self.digests = file_checksums(source.label, self._states)
        content = repr([(entry.name, entry.row, _split_of(entry)) for entry in entries]).encode()
        self.fingerprint = hashlib.blake2b(content + self.digests.tobytes(), digest_size=16).hexdigest()

    def row(self, number: int) -> Row:
        entry = self.entries[number]
        self._states[number].check()
        if entry.listing:
            self._listings[entry.listing].check()
        content = read_unchanged(self._states[number], int(self.digests[number]), self.place(number))
        return {self.feature: content, self.path_feature: entry.name} | entry.row

    def place(self, number: int) -> str:
        return self.files[number]


def _split_of(entry: Entry) -> str | None:
    """The split of a file, by the name of its listing, or else by the first folder that it is in."""
    listing = PurePath(entry.listing).name
    if listing and listing not in METADATA and (split := split_in_name(listing)):
        return split
    parts = entry.name.split("/")
    return split_name(parts[0]) if len(parts) > 1 else None
