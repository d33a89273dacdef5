"""Arrow and Parquet: tables of columns, as `datasets` and others save them."""

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data.loading import disk_cache
from txjax.data.sources.columns import Column
from txjax.data.sources.file_rows import Row, Rows
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.file_states import FileState, LocalFile
from txjax.data.sources.valid_batches import ValidBatches, first_line
from txjax.data.tfds.records import ChangedData
from txjax.errors import UserError

logger = logging.getLogger("txjax")
LAYOUT = 1  # version of the files in the cache


@dataclasses.dataclass
class ArrowFiles(FileSource):
    """Arrow files, mapped into memory where they lie; remote ones are copied into the cache.

    Classes are those that the library `datasets` names.
    """

    def read_files(self, files: list[FileState]) -> Rows:
        return ArrowRows(files, [file.on_disk() for file in files])

    def stated_columns(self, rows: Rows) -> dict[str, Column]:
        assert isinstance(rows, ArrowRows)
        columns = {}
        for name, feature in stated_features(rows.schema).items():
            item = feature.get("feature")
            if feature.get("_type") == "ClassLabel" and name not in self.kinds:
                columns[name] = Column(name, "class number", tuple(feature["names"]))
            elif isinstance(item, dict) and item.get("_type") == "ClassLabel" and name not in self.kinds:
                columns[name] = Column(name, "class numbers", tuple(item["names"]))
            elif feature.get("_type") == "Image":
                columns[name] = Column(name, "image")
        return columns


@dataclasses.dataclass
class ParquetFiles(ArrowFiles):
    """Parquet files, written once into the cache as Arrow, since a row of a large row group is slow to read."""

    def read_files(self, files: list[FileState]) -> Rows:
        return ArrowRows(files, [rewrite(file) for file in files])


def stated_features(schema: Any) -> dict[str, dict[str, Any]]:
    """The features that the library `datasets` wrote into the schema of a file."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        stated = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        lists = {name: {"feature": feature[0]} for name, feature in stated.items() if isinstance(feature, list)}
        return {name: feature for name, feature in stated.items() if isinstance(feature, dict)} | lists
    return {}


def rewrite(file: FileState) -> LocalFile:
    """A Parquet file as Arrow in the cache."""

    def build(folder: Path) -> None:
        target = folder / "rows.arrow"
        file.verified(functools.partial(_write_arrow, target))
        logger.warning("%s is written once into the cache as Arrow, %d bytes", file.path, target.stat().st_size)

    made_from = {"layout": LAYOUT, "file": dataclasses.astuple(file)}
    return disk_cache.get_or_build("arrow", made_from, build, lambda folder: LocalFile.of(str(folder / "rows.arrow")))


def _write_arrow(target: Path, file: FileState) -> None:
    """Writes the rows of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        with (
            file.open() as content,
            pa.parquet.ParquetFile(content, page_checksum_verification=True) as parquet,
            pa.ipc.new_file(str(target), parquet.schema_arrow) as writer,
        ):
            for batch in parquet.iter_batches(batch_size=1024):
                writer.write_batch(batch)
    except (pa.ArrowException, OSError) as error:
        raise UserError("data.source", "a whole Parquet file", f"{file.path}: {first_line(error)}") from error


class ArrowRows(Rows):
    """The rows of Arrow files, as `Rows`."""

    def __init__(self, files: Sequence[FileState], arrow: Sequence[LocalFile]):
        """
        Args:
          files: the files that the source names.
          arrow: the same ones as Arrow.
        """
        self.files = tuple(file.path for file in files)
        self._states = tuple(files)
        self._batches = [ValidBatches(file) for file in arrow]
        self.schema = self._batches[0].schema
        self._names = self.schema.names
        for path, batches in zip(self.files, self._batches, strict=True):
            if batches.schema.names != self.schema.names:
                expected = f"the columns of {self.files[0]} ({', '.join(self.schema.names)}) in all files"
                raise UserError("data.source", expected, f"{', '.join(batches.schema.names)} in {path}")
        self.firsts = np.cumsum([0, *(len(batches) for batches in self._batches)]).astype(np.int64)
        self.digests = self._digests()
        self.fingerprint = hashlib.blake2b(self.digests.tobytes(), digest_size=16).hexdigest()

    def row(self, number: int) -> Row:
        file = self._file(number)
        self._states[file].check()
        try:
            row = self._row(file, number)
        except ValueError:
            row = None
        if row is None or zlib.crc32(repr(row).encode()) != self.digests[number]:
            raise ChangedData(f"{self.place(number)}: its bytes have changed since it was indexed")
        return row

    def place(self, number: int) -> str:
        file = self._file(number)
        return f"{self.files[file]}: row {number - int(self.firsts[file])}"

    def _file(self, number: int) -> int:
        return int(np.searchsorted(self.firsts, number, side="right")) - 1

    def _row(self, file: int, number: int) -> Row:
        values = self._batches[file].row(number - int(self.firsts[file]))
        return {name: _value(value) for name, value in zip(self._names, values, strict=True)}

    def _digests(self) -> np.ndarray:
        """The checksums of all rows, from the cache."""
        made_from = {"layout": LAYOUT, "files": [dataclasses.astuple(state) for state in self._states]}

        def build(folder: Path) -> None:
            total = int(self.firsts[-1])
            digests = np.zeros(total, np.uint32)
            with disk_cache.progress(f"index of {self.files[0]}", total) as advance:
                for file in range(len(self.files)):
                    for number in range(int(self.firsts[file]), int(self.firsts[file + 1])):
                        try:
                            row = self._row(file, number)
                        except ValueError as error:
                            expected = "a whole Arrow file"
                            raise UserError("data.source", expected, f"{self.place(number)}: {error}") from error
                        digests[number] = zlib.crc32(repr(row).encode())
                        advance(1)
            np.save(folder / "digests.npy", digests)

        load = lambda folder: np.load(folder / "digests.npy", allow_pickle=False)  # noqa: E731
        return disk_cache.get_or_build("rows", made_from, build, load)


def _value(scalar: Any) -> Any:
    """The value in Python; of a text with bytes that are not UTF-8 these bytes, which are no text."""
    try:
        return scalar.as_py()
    except UnicodeDecodeError as error:
        return error.object
