"""A folder of images as its user keeps them: a folder for each class, perhaps inside one for each split."""

import dataclasses
import functools
import hashlib
from pathlib import Path

from txjax.data.sources.image_folders import SUFFIXES
from txjax.types import UserError

HELD_OUT = {"test": 0.1, "validation": 0.1}  # shares of each class, where the folder has no splits


@dataclasses.dataclass(frozen=True)
class ImageFile:
    """An image of a folder.

    Attributes:
      path: inside the folder, such as `train/cats/17.png`.
      label: the name of its class.
    """

    path: str
    label: str


@dataclasses.dataclass(frozen=True)
class ClassFolders:
    """The images of a folder.

    Attributes:
      splits: the images of each split, by name, in the order of their paths.
      digest: a hash of all paths, sizes and times of change, 16 hex digits.
    """

    splits: dict[str, tuple[ImageFile, ...]]
    digest: str

    @property
    def classes(self) -> list[str]:
        """The names of the classes of all splits, in alphabetical order."""
        return sorted({image.label for images in self.splits.values() for image in images})


@functools.cache
def list_images(folder: Path) -> ClassFolders:
    """The images in FOLDER/CLASS or in FOLDER/SPLIT/CLASS. Hidden files and files of other kinds are left out.

    A process looks once, so that all of it sees one state of the folder.

    Without splits, a tenth of each class is `test`, another one `validation`, and the rest `train`. Which images these
    are follows from a hash of each one's path.

    Raises:
      UserError: there is no such folder, it has no images in folders, or images at both depths.
    """
    if not folder.is_dir():
        raise UserError("data.data_dir", "a folder with a folder of images for each class", str(folder))
    paths = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES]
    paths = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    depths = sorted({len(path.parts) for path in paths})
    if depths not in ([2], [3]):
        example = f"{paths[0]} and others at other depths" if len(depths) > 1 else str(paths[0]) if paths else "none"
        expected = "images in CLASS/FILE or in SPLIT/CLASS/FILE, and nowhere else"
        raise UserError("data.data_dir", expected, f"{example} in {folder}", hint=f"images are {', '.join(SUFFIXES)}")
    stats = [(path.as_posix(), (folder / path).stat()) for path in paths]
    content = repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats])
    digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    images = [ImageFile(path.as_posix(), path.parts[-2]) for path in paths]
    if depths == [2]:
        return ClassFolders(_held_out(images), digest)
    names = dict.fromkeys(path.parts[0] for path in paths)
    splits = {name: tuple(image for image in images if image.path.startswith(f"{name}/")) for name in names}
    return ClassFolders(splits, digest)


def _held_out(images: list[ImageFile]) -> dict[str, tuple[ImageFile, ...]]:
    """The splits of images without splits."""
    chosen: dict[str, list[ImageFile]] = {"train": [], **{name: [] for name in HELD_OUT}}
    for label in dict.fromkeys(image.label for image in images):
        members = [image for image in images if image.label == label]
        members.sort(key=lambda image: hashlib.sha256(image.path.encode()).digest())
        for name, share in HELD_OUT.items():
            size = round(share * len(members)) if len(members) < 3 else max(1, round(share * len(members)))
            chosen[name] += members[:size]
            members = members[size:]
        chosen["train"] += members
    return {name: tuple(sorted(part, key=lambda image: image.path)) for name, part in chosen.items()}
