"""The files of a folder, found by one walk in a process."""

import dataclasses
import os
from pathlib import Path

from txjax.data.sources.file_states import LocalFile
from txjax.errors import UserError


@dataclasses.dataclass(frozen=True, eq=False)
class FolderWalk:
    """What is in a folder. Hidden files and folders are left out, and links to folders are not followed.

    Attributes:
      folder: the folder.
      folders: the states of the folder and of all in it. As long as they are these, no file came, went or was renamed.
      files: the paths in the folder of its files, sorted part by part.
      links: the paths of links in the folder.
    """

    folder: Path
    folders: tuple[LocalFile, ...]
    files: tuple[str, ...]
    links: tuple[str, ...]

    def is_fresh(self) -> bool:
        """Whether the folders have the same files still."""
        try:
            return all(LocalFile.of(state.path) == state for state in self.folders)
        except OSError:
            return False

    def check_links(self, endings: tuple[str, ...]) -> None:
        """Raises UserError for a link to a folder, or one with such an ending, that leads out of the folder."""
        root = self.folder.resolve()
        for link in (self.folder / name for name in self.links):
            target = link.resolve()
            if link.name.lower().endswith(endings) or target.is_dir():
                if not target.is_relative_to(root):
                    raise UserError("data.source", "files inside of the folder", f"{link}, a link out of it")
                if not target.exists():
                    raise UserError("data.source", "files inside of the folder", f"{link}, a link to nothing")


_walks: dict[str, FolderWalk] = {}


def walk_folder(folder: Path) -> FolderWalk:
    """The files of a folder, by the walk of this process as long as it is fresh.

    Raises:
      UserError: the folder, or one in it, can't be read.
    """
    walk = _walks.get(str(folder))
    if walk is None or not walk.is_fresh():
        try:
            walk = _walks[str(folder)] = _walk(folder)
        except OSError as error:
            expected = "a folder whose folders can be read"
            raise UserError("data.source", expected, f"{error.filename}: {error.strerror}") from error
    return walk


def _walk(folder: Path) -> FolderWalk:
    folders = []
    files = []
    links = []
    waiting = [""]
    while waiting:
        base = waiting.pop()
        folders.append(LocalFile.of(str(folder / base)))
        with os.scandir(folder / base) as entries:
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
    files.sort(key=lambda name: name.split("/"))
    return FolderWalk(folder, tuple(folders), tuple(files), tuple(sorted(links)))
