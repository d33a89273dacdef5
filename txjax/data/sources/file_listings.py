"""Listings: what a folder of files says about each of them, in JSON lines or a table."""

import dataclasses
import functools
import os
import posixpath
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath

from txjax.data.sources.file_rows import Row
from txjax.data.sources.file_states import FileState
from txjax.data.sources.folder_walks import FolderWalk
from txjax.data.sources.json_lines import JSONLines
from txjax.data.sources.remote_files import is_url
from txjax.data.sources.split_names import split_in_name
from txjax.data.sources.tables import Tables
from txjax.data.tfds.records import CorruptData
from txjax.errors import UserError

METADATA = ("metadata.jsonl", "metadata.csv")
ENDINGS = (".jsonl", ".csv")
FILE_NAME = "file_name"  # the column of a file's path by the custom of `datasets`


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file of a folder.

    Attributes:
      name: its path in the folder.
      feature: the name of the feature that its content is.
      row: what is known of it.
      listing: the listing's path in the folder; "" if there is none.
    """

    name: str
    feature: str
    row: Row
    listing: str


def find_listings(walk: FolderWalk) -> list[str]:
    """`metadata.jsonl` or `metadata.csv` in the folder and in its folders; if there is none, its manifests.

    These are JSON lines and tables in the folder itself with a split or `manifest` in their names, and
    `*manifest.json`. Another table or file of JSON lines lists nothing.
    """
    metadata = [name for name in walk.files if PurePosixPath(name).name in METADATA and name.count("/") < 2]
    return metadata or [name for name in walk.files if "/" not in name and _is_manifest(name)]


def _is_manifest(name: str) -> bool:
    return (
        name.endswith("manifest.json")
        or name.endswith(ENDINGS)
        and ("manifest" in name or split_in_name(name) is not None)
    )


def other_tables(walk: FolderWalk, listings: list[str]) -> list[str]:
    """The tables and JSON lines in the folder itself that are no listings."""
    return [name for name in walk.files if "/" not in name and name.endswith(ENDINGS) and name not in listings]


def read_listing(
    folder: str,
    files: Mapping[str, FileState],
    listing: str,
    suffixes: tuple[str, ...],
    medium: str,
    faults: list[str] | None = None,
) -> list[Entry]:
    """The entries of a listing, in its order.

    The column `file_name` has the path of each file, from the listing's folder; if there is none, the first column
    whose first value ends like such a file, by whose name the content is a feature then.

    Args:
      folder: that the source reads.
      files: in it, by their paths in it.
      listing: the path of the listing in it.
      suffixes: the endings of the files' names.
      medium: the name of the content where the column is `file_name`.
      faults: lines that are broken are left out and added to these. If None, the first one is an error.

    Raises:
      UserError: a line is no row, or names no file inside the folder.
    """
    path = files[listing].path
    source = Tables(path) if path.endswith(".csv") else JSONLines(path)
    rows = source.read_files([files[listing]])
    entries: list[Entry] = []
    column = None
    for number in range(int(rows.firsts[-1])):
        place = functools.partial(rows.place, number)  # is slow
        try:
            row = rows.row(number)
            if column is None:
                listed = [name for name, value in row.items() if _ends_with(value, suffixes)]
                column = FILE_NAME if FILE_NAME in row else listed[0] if listed else None
            if column is None or not _ends_with(row.get(column), suffixes):
                expected = f"a file of {', '.join(suffixes)} as {column or FILE_NAME}"
                raise UserError("data.source", expected, f"{place()}: {row.get(column or FILE_NAME)!r:.60}")
            name = path_inside(folder, files, posixpath.dirname(listing), str(row[column]), place)
        except (CorruptData, UserError) as error:
            if faults is None:
                raise error if isinstance(error, UserError) else _unreadable(error) from None
            faults.append(str(error))
            continue
        others = {key: value for key, value in row.items() if key != column}
        entries.append(Entry(name, medium if column == FILE_NAME else column, others, listing))
    if not entries:
        raise UserError("data.source", "a listing with rows", f"{path} without any")
    return entries


def _unreadable(error: CorruptData) -> UserError:
    return UserError("data.source", "a row with the path of a file in each line", str(error))


def _ends_with(value: object, suffixes: tuple[str, ...]) -> bool:
    return isinstance(value, str) and value.lower().endswith(suffixes)


def path_inside(folder: str, files: Collection[str], base: str, name: str, place: Callable[[], str]) -> str:
    """The path in a folder of a file that a listing names. Raises UserError if it is outside of it or isn't there.

    Args:
      files: the paths of those that are there.
      base: the folder in it that the listing is in.
      name: the path of the file from there, or its whole path.
      place: where the listing names it, for messages.
    """
    roots = (folder,) if is_url(folder) else _local_roots(os.path.abspath(folder))
    inside = next((name[len(root) + 1 :] for root in roots if name.startswith(f"{root}/")), None)
    path = posixpath.normpath(posixpath.join(base, name) if inside is None else inside)
    if path.startswith(("/", "../")):
        raise UserError("data.source", f"a file inside of {folder}", f"{place()}: {name}")
    if path not in files:
        raise UserError("data.source", f"a file that is in {folder}", f"{place()}: {name}")
    return path


@functools.lru_cache(maxsize=8)
def _local_roots(folder: str) -> tuple[str, ...]:
    """How whole paths of the files of a folder of a disk begin."""
    return folder, os.path.realpath(folder)
