"""The files of a folder, of a disk or of a bucket, found by one walk in a process."""

import dataclasses
import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from txjax.data.sources.file_states import FileState, LocalFile
from txjax.data.sources.remote_files import RemoteFile, is_url, list_remote_folder
from txjax.errors import UserError

FIELD = "data.source"


@dataclasses.dataclass(frozen=True, eq=False)
class FolderWalk:
    """Base class of what is in a folder. Hidden files and folders are left out.

    Attributes:
      folder: its path, or its URL.
      files: the paths in the folder of its files, sorted part by part.
    """

    folder: str
    files: tuple[str, ...]

    def state(self, name: str) -> FileState:
        """A file, by its path in the folder."""
        raise NotImplementedError

    def is_fresh(self) -> bool:
        """Whether the folder has the same files still."""
        raise NotImplementedError

    def check_links(self, endings: tuple[str, ...]) -> None:
        """Raises UserError for a link to a folder, or one with such an ending, that leads out of the folder."""


@dataclasses.dataclass(frozen=True, eq=False)
class LocalWalk(FolderWalk):
    """What is in a folder of a disk. Links to folders are not followed.

    Attributes:
      folders: the states of the folder and of all in it. As long as they are these, no file came, went or was renamed.
      links: the paths of links in the folder.
    """

    folders: tuple[LocalFile, ...]
    links: tuple[str, ...]

    def state(self, name: str) -> LocalFile:
        return LocalFile.of(f"{self.folder}/{name}")

    def is_fresh(self) -> bool:
        try:
            return all(LocalFile.of(state.path) == state for state in self.folders)
        except OSError:
            return False

    def check_links(self, endings: tuple[str, ...]) -> None:
        root = Path(self.folder).resolve()
        for link in (Path(self.folder, name) for name in self.links):
            target = link.resolve()
            if link.name.lower().endswith(endings) or target.is_dir():
                if not target.is_relative_to(root):
                    raise UserError(FIELD, "files inside of the folder", f"{link}, a link out of it")
                if not target.exists():
                    raise UserError(FIELD, "files inside of the folder", f"{link}, a link to nothing")


@dataclasses.dataclass(frozen=True, eq=False)
class RemoteWalk(FolderWalk):
    """What is in a folder of a bucket.

    Attributes:
      listed: its files.
    """

    listed: Sequence[RemoteFile]

    @functools.cached_property
    def states(self) -> dict[str, RemoteFile]:
        """The files by their paths in the folder."""
        return {file.path.removeprefix(f"{self.folder}/"): file for file in self.listed}

    def state(self, name: str) -> RemoteFile:
        return self.states[name]

    def is_fresh(self) -> bool:
        return list_remote_folder(self.folder, FIELD) == self.listed


_walks: dict[str, FolderWalk] = {}


def walk_folder(folder: str) -> FolderWalk:
    """The files of a folder, by the walk of this process as long as it is fresh.

    Raises:
      UserError: the folder, or one in it, can't be read.
    """
    walk = _walks.get(folder)
    if walk is None or not walk.is_fresh():
        try:
            walk = _walks[folder] = (_walk_remote if is_url(folder) else _walk)(folder)
        except OSError as error:
            expected = "a folder whose folders can be read"
            raise UserError(FIELD, expected, f"{error.filename}: {error.strerror}") from error
    return walk


def folder_path(path: str) -> str:
    """The path of a folder, or its URL, as messages have it."""
    return path.rstrip("/") if is_url(path) else str(Path(path).expanduser())


def is_folder(path: str) -> bool:
    """Whether a path names a folder of a disk, or a URL one whose name has no ending."""
    return not PurePath(path).suffix if is_url(path) else os.path.isdir(folder_path(path))


def find_in_folder(folder: str, names: Iterable[str]) -> dict[str, FileState]:
    """The files of a folder by their paths in it, of these those that are there.

    A folder of a disk is not walked.

    Raises:
      UserError: one is a link out of the folder, or a folder in a bucket can't be listed.
    """
    wanted = list(dict.fromkeys(names))
    if is_url(folder):
        walk = walk_folder(folder) if wanted else None
        files = frozenset(walk.files if walk else ())
        return {name: walk.state(name) for name in wanted if walk and name in files}
    root = Path(folder).resolve()
    resolve = functools.cache(Path.resolve)
    local: dict[str, FileState] = {}
    for name in wanted:
        path = Path(folder, name)
        target = path.resolve() if path.is_symlink() else resolve(path.parent)
        if not target.is_relative_to(root):
            raise UserError(FIELD, f"files inside of {folder}", f"{path}, a link out of it")
        if path.is_file():
            local[name] = LocalFile.of(str(path))
    return local


def _walk_remote(folder: str) -> RemoteWalk:
    listed = list_remote_folder(folder, FIELD)
    names = [file.path.removeprefix(f"{folder}/") for file in listed]
    return RemoteWalk(folder, _sorted(names), listed)


def _walk(folder: str) -> LocalWalk:
    folders = []
    files = []
    links = []
    waiting = [""]
    while waiting:
        base = waiting.pop()
        folders.append(LocalFile.of(f"{folder}/{base}"))
        with os.scandir(f"{folder}/{base}") as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = f"{base}{entry.name}"
                if entry.is_symlink():
                    links.append(name)
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                elif entry.is_file():
                    files.append(name)
    return LocalWalk(folder, _sorted(files), tuple(folders), tuple(sorted(links)))


def _sorted(names: list[str]) -> tuple[str, ...]:
    """Paths, sorted part by part."""
    return tuple(sorted(names, key=lambda name: name.split("/")))
