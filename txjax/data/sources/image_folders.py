"""A folder of images as its user keeps them, read where they lie."""

import dataclasses
import hashlib
import os
import zlib
from pathlib import Path

import numpy as np

from txjax.data.loading import disk_cache
from txjax.data.sources.columns import Column
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource, split_name
from txjax.data.sources.file_states import FileState
from txjax.data.sources.json_lines import parse_object
from txjax.data.tfds.records import CorruptData
from txjax.types import UserError

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
METADATA = "metadata.jsonl"


@dataclasses.dataclass
class ImageFolder(FileSource):
    """Images of a folder: in CLASS/FILE or SPLIT/CLASS/FILE, or with `metadata.jsonl`, as `datasets` reads them.

    A record has `image`; `file`, its path in the folder; and `label`, the name of the folder that it is in, as a class.
    With `metadata.jsonl`, in the folder or in one for each split, it has the columns of its line there, which names its
    file as `file_name`, in the place of `label`.

    Attributes:
      paths: the folder.
    """

    def find(self) -> list[FileState]:
        if not isinstance(self.paths, str) or not os.path.isdir(self.paths):
            hint = "" if self.paths else "--config.data.source=FOLDER"
            raise UserError("data.source", "a folder of images", str(self.paths) or None, hint=hint)
        folder = Path(self.paths)
        paths = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES]
        paths = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
        outside = [path for path in paths if not path.resolve().is_relative_to(folder.resolve())]
        if outside:
            raise UserError("data.source", "images inside of the folder", f"{outside[0]}, a link out of it")
        if not paths:
            raise UserError("data.source", f"a folder with images ({', '.join(SUFFIXES)})", str(self.paths))
        return [FileState.of(str(path)) for path in paths]

    def read_files(self, files: list[FileState]) -> Rows:
        return ImageRows(Path(str(self.paths)), files)

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        assert isinstance(rows, ImageRows)
        image = {"image": Column("image", "image")}
        return image if rows.metadata else image | {"label": Column("label", "class", rows.classes())}

    def split_of(self, path: str) -> str | None:
        parts = Path(path).relative_to(str(self.paths)).parts
        return split_name(parts[0]) if len(parts) > 1 else None


class ImageRows:
    """The images of a folder, as `Rows`."""

    def __init__(self, folder: Path, files: list[FileState]):
        self._folder = folder
        self._states = tuple(files)
        self.metadata = read_metadata(folder)
        self.files = tuple(file.path for file in files)
        names = [path.relative_to(folder).as_posix() for path in map(Path, self.files)]
        deeper = [name for name in names if name.count("/") != names[0].count("/")]
        if deeper and not self.metadata:
            expected = "images in CLASS/FILE, or all in SPLIT/CLASS/FILE"
            raise UserError("data.source", expected, f"{names[0]} and {deeper[0]} in {folder}")
        self._rows: list[Row] = []
        for name in names:
            if self.metadata:
                if name not in self.metadata:
                    raise UserError("data.source", f"a line of {METADATA} for each image", f"none for {name}")
                self._rows.append({"file": name} | self.metadata[name])
            else:
                if "/" not in name:
                    expected = f"images in folders of their classes, or {METADATA}"
                    raise UserError("data.source", expected, f"{name} in {folder}")
                self._rows.append({"file": name, "label": name.split("/")[-2]})
        if missing := sorted(set(self.metadata) - set(names)):
            raise UserError("data.source", f"the images that {METADATA} names", f"no {missing[0]} in {folder}")
        self.firsts = np.arange(len(files) + 1, dtype=np.int64)
        self.digests = self._digests()
        content = repr(self._rows).encode() + self.digests.tobytes()
        self.fingerprint = hashlib.blake2b(content, digest_size=16).hexdigest()

    def classes(self) -> tuple[str, ...]:
        """The names of the folders that images are in."""
        return tuple(sorted({row["label"] for row in self._rows}))

    def row(self, number: int) -> Row:
        self._states[number].check()
        content = Path(self.files[number]).read_bytes()
        if zlib.crc32(content) != self.digests[number]:
            raise CorruptData(f"{self.place(number)}: its bytes have changed since it was indexed")
        return {"image": content} | self._rows[number]

    def place(self, number: int) -> str:
        return self.files[number]

    def _digests(self) -> np.ndarray:
        """The checksums of all files, from the cache."""
        made_from = {"files": [dataclasses.astuple(state) for state in self._states]}

        def build(folder: Path) -> None:
            digests = np.zeros(len(self.files), np.uint32)
            with disk_cache.progress(f"index of {self._folder}", len(self.files)) as advance:
                for number, path in enumerate(self.files):
                    digests[number] = zlib.crc32(Path(path).read_bytes())
                    advance(1)
            np.save(folder / "digests.npy", digests)

        load = lambda folder: np.load(folder / "digests.npy", allow_pickle=False)  # noqa: E731
        return disk_cache.get_or_build("rows", made_from, build, load)


def read_metadata(folder: Path) -> dict[str, Row]:
    """The lines of `metadata.jsonl`, in the folder or in one for each split, by the path of their image.

    Raises:
      UserError: a line is no object with a `file_name`.
    """
    rows = {}
    for path in sorted([*folder.glob(METADATA), *folder.glob(f"*/{METADATA}")]):
        for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
            try:
                row = parse_object(line)
                name = row.pop("file_name")
                rows[(path.parent / name).relative_to(folder).as_posix()] = row
            except (ValueError, KeyError, TypeError) as error:
                got = f"{path}: line {number}: {type(error).__name__}: {error}"
                raise UserError("data.source", "a JSON object with a file_name in each line", got) from error
    return rows
