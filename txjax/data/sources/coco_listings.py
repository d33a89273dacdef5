"""Annotations of images as COCO's: a JSON file with images, their boxes, and the names of classes (Lin et al. 2014)."""

import collections
import dataclasses
import functools
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from txjax.data.sources.file_listings import Entry, path_inside
from txjax.data.sources.file_states import FileState
from txjax.data.sources.folder_walks import FolderWalk
from txjax.errors import UserError

OBJECTS = "objects"  # the column of the boxes
KEYS = ("images", "annotations", "categories")


@dataclasses.dataclass(frozen=True)
class CocoListing:
    """One file of annotations.

    Attributes:
      entries: its images. `objects` of a row has `bbox` (top, left, bottom, right, as fractions of the image), `label`,
        `area` in pixels and `is_crowd`, as the set `coco` of TFDS has them.
      classes: the names of the classes, by their numbers.
    """

    entries: list[Entry]
    classes: tuple[str, ...]


@functools.lru_cache(maxsize=8)
def find_coco(walk: FolderWalk) -> tuple[str, ...]:
    """The files in a folder, and in its folders, that are annotations like COCO's."""
    names = sorted((name for name in walk.files if name.endswith(".json") and name.count("/") < 2), key=_depth_first)
    contents = {name: _content(walk.state(name)) for name in names}
    return tuple(
        name for name, content in contents.items() if isinstance(content, dict) and set(KEYS) <= content.keys()
    )


def _depth_first(name: str) -> tuple[int, str]:
    return name.count("/"), name


def read_coco(folder: str, files: Mapping[str, FileState], listing: str, medium: str) -> CocoListing:
    """The images of a file of annotations.

    An image is beside the file, in the folder, or in one of its folders.

    Args:
      folder: that the source reads.
      files: in it, by their paths in it.
      listing: the path of the file of annotations in it.

    Raises:
      UserError: the file lacks something, or an image is missing or not inside of the folder.
    """
    content = _content(files[listing])
    folders = sorted({name.partition("/")[0] for name in files if "/" in name})
    try:
        categories = sorted(content["categories"], key=lambda category: category["id"])
        number_of = {category["id"]: number for number, category in enumerate(categories)}
        by_image = collections.defaultdict(list)
        for annotation in content["annotations"]:
            by_image[annotation["image_id"]].append(annotation)
        entries = []
        for image in content["images"]:
            name = find_image(folder, files, folders, listing, str(image["file_name"]))
            width = image["width"]
            height = image["height"]
            objects: dict[str, list[Any]] = {"bbox": [], "label": [], "area": [], "is_crowd": []}
            for annotation in by_image[image["id"]]:
                left, top, across, down = annotation["bbox"]
                objects["bbox"].append([top / height, left / width, (top + down) / height, (left + across) / width])
                objects["label"].append(number_of[annotation["category_id"]])
                objects["area"].append(annotation.get("area", across * down))
                objects["is_crowd"].append(bool(annotation.get("iscrowd", 0)))
            entries.append(Entry(name, medium, {OBJECTS: objects}, listing))
        return CocoListing(entries, tuple(str(category["name"]) for category in categories))
    except UserError:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        expected = "images (file_name, id, width, height), annotations (image_id, category_id, bbox) and categories"
        raise UserError("data.source", expected, f"{folder}/{listing}: {type(error).__name__}: {error}") from error


def find_image(folder: str, files: Mapping[str, FileState], folders: Sequence[str], listing: str, name: str) -> str:
    """The path in the folder of an image. Raises UserError if there is none, or more than one, of this name.

    Args:
      folders: in the folder itself.
    """
    base = posixpath.dirname(listing)
    beside = [part for part in (base, "") if posixpath.join(part, name) in files]
    bases = beside[:1] or [part for part in folders if f"{part}/{name}" in files]
    if len(bases) > 1:
        raise UserError("data.source", f"one image {name} in {folder}", ", ".join(bases))
    return path_inside(folder, files, bases[0] if bases else base, name, lambda: f"{folder}/{listing}")


@functools.lru_cache(maxsize=8)
def _content(file: FileState) -> Any:
    """What a JSON file has; None if it is none."""
    try:
        return file.verified(lambda file: json.loads(file.read_all().decode("utf-8")))
    except ValueError:
        return None
