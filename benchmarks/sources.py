"""Measures how long a random row of each kind of files takes to read, beside the same rows of TFDS; and an index.

python benchmarks/sources.py [--rows=100000] [--megabytes=300]

The index of a file of lines has the place of every row and a checksum of every block of the file. Its time, without
the cache's own writes, stands beside that of `wc -l` on the same file, which is in memory, and of what bounds it, the
checksums alone in one thread. A split by content needs a hash of every row, too. All are medians of ten rounds.
`--rows=0` measures indexes alone.
"""

import argparse
import csv
import functools
import io
import json
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import tensorflow_datasets as tfds
from PIL import Image

from txjax.data import TFDS
from txjax.data.sources.file_blocks import CHUNK, CheckedFile, block_checksums
from txjax.data.sources.file_states import LocalFile
from txjax.data.sources.line_cuts import cut_blocks, cut_lines, cut_quoted_lines
from txjax.data.sources.line_index import THREADS, RowIndex, index_file
from txjax.data.sources.record_source import Records, RecordSource
from txjax.data.sources.row_digests import hash_rows
from txjax.data.sources.source_of import source_at

READS = 20_000
IMAGES = 5_000
ROUNDS = 10
LIMIT = 1.5  # times the row of array_record
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(THREADS) as pool:
        if arguments.rows:
            compare_rows(Path(name), arguments.rows)
        print(
            "index of | rows | megabytes | wc -l in s | index in s | times wc -l | checksums in s | hashes of rows in s"
        )
        for length in (40, 400):
            compare_indexes(Path(name), length, arguments.megabytes * 1_000_000, pool)


def compare_rows(folder: Path, count: int) -> None:
    """Prints the time of a random row of all kinds of files, of texts and of images."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=40)) for _ in range(count)]
    rows = [{"text": text, "label": number % 5} for number, text in enumerate(texts)]
    print("source | index in s | row in us | of TFDS")
    features = {"text": tfds.features.Text(), "label": np.int64}
    prepared = write_tfds(folder, "rows", features, rows)
    ratios = compare(prepared, write_files(folder, rows), ["text", "label"], [])
    photos = [{"image": photo(rng), "label": number % 5} for number in range(IMAGES)]
    features = {"image": tfds.features.Image(shape=(None, None, 3)), "label": np.int64}
    records = [row | {"image": io.BytesIO(row["image"])} for row in photos]
    prepared = write_tfds(folder, "photos", features, records)
    ratios += compare(prepared, write_photos(folder, photos), ["label"], ["image"])
    verdict = "holds" if max(ratios) <= LIMIT else "does not hold"
    print(f"no source slower than {LIMIT} times array_record: {verdict}, the slowest is {max(ratios):.2f}\n")


def compare(prepared: RecordSource, sources: list[RecordSource], names: list[str], encoded: list[str]) -> list[float]:
    """Prints the time of a random row of TFDS and of sources; returns how many times as long theirs take."""
    base = microseconds(prepared.open("train", names, encoded))
    print(f"array_record of {prepared.label} | - | {base:.1f} | 1.00")
    ratios = []
    for source in sources:
        start = time.perf_counter()
        records = source.open("train", names, encoded)
        index = time.perf_counter() - start
        row = microseconds(records)
        ratios.append(row / base)
        print(f"{Path(source.label).name} | {index:.1f} | {row:.1f} | {row / base:.2f}")
    return ratios


def compare_indexes(folder: Path, words: int, size: int, pool: Executor) -> None:
    """Prints the time of the index of files of rows of so many words, beside `wc -l`."""
    rng = np.random.default_rng(1)
    rows = [{"text": " ".join(rng.choice(WORDS, size=words)), "label": number % 5} for number in range(1000)]
    path = folder / "many"
    kinds = {
        "JSON lines": (json_lines(rows), cut_lines),
        "a table": (table(rows), cut_quoted_lines),
        "a table with quotes": (
            table([row | {"text": f'"{row["text"]}", all said'} for row in rows]),
            cut_quoted_lines,
        ),
        "text": ("".join(row["text"] + "\n" for row in rows), cut_blocks(4096)),
    }
    for title, (content, cut) in kinds.items():
        with path.open("w", encoding="utf-8") as file:
            for _ in range(-(-size // len(content))):
                file.write(content)
        take_index = functools.partial(index_file, LocalFile.of(str(path)), cut, pool)
        index = take_index()
        works = (
            functools.partial(subprocess.check_output, ["wc", "-l", path]),
            take_index,
            functools.partial(take_checksums, path),
            functools.partial(take_hashes, path, index),
        )
        counted, indexed, checksums, hashes = medians(works)
        times = f"{counted:.3f} | {indexed:.3f} | {indexed / counted:.1f} | {checksums:.3f} | {hashes:.3f}"
        print(f"{title}, {words} words | {len(index.starts)} | {path.stat().st_size / 1e6:.0f} | {times}")


def take_checksums(path: Path) -> None:
    """CRC-32 of the blocks of a file, in one thread."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            block_checksums(chunk)


def take_hashes(path: Path, index: RowIndex) -> None:
    """CRC-32 of the rows of a file, whose blocks are compared with their checksums on the way."""
    hash_rows(CheckedFile(LocalFile.of(str(path)), index.checksums, ValueError), index.starts, index.ends)


def medians(works: Sequence[Callable[[], object]]) -> list[float]:
    """The median time of each, in seconds, of several rounds of all."""
    times = [[seconds(work) for work in works] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def microseconds(records: Records) -> float:
    """The time of a random row, the better one of two rounds."""
    numbers = np.random.default_rng(1).integers(len(records), size=READS).tolist()
    rounds = []
    for _ in range(2):
        start = time.perf_counter()
        for number in numbers:
            records[number]
        rounds.append((time.perf_counter() - start) / READS * 1e6)
    return min(rounds)


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(rows: Sequence[dict[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(rows[0])
    writer.writerows(row.values() for row in rows)
    return file.getvalue()


def photo(rng: np.random.Generator) -> bytes:
    """A PNG of 32 x 32 random colours."""
    content = io.BytesIO()
    Image.fromarray(rng.integers(256, size=(32, 32, 3), dtype=np.uint8)).save(content, "png")
    return content.getvalue()


def write_files(folder: Path, rows: Sequence[dict[str, Any]]) -> list[RecordSource]:
    """The rows as files of several kinds."""
    endings = ("jsonl", "csv", "parquet", "arrow", "tar")
    lines, values, parquet, arrow, tar = (folder / f"rows.{ending}" for ending in endings)
    lines.write_text(json_lines(rows), encoding="utf-8")
    values.write_text(table(rows), encoding="utf-8", newline="")
    columns = pa.Table.from_pylist(list(rows))
    pa.parquet.write_table(columns, parquet, row_group_size=10_000)
    with pa.ipc.new_stream(arrow, columns.schema) as writer:
        writer.write_table(columns, 1000)
    write_tar(tar, [{"txt": row["text"].encode(), "json": b'{"label": %d}' % row["label"]} for row in rows])
    return [source_at(str(path)) for path in (lines, values, parquet, arrow, tar)]


def write_photos(folder: Path, photos: Sequence[dict[str, Any]]) -> list[RecordSource]:
    """Images as a folder and as a tar file."""
    for number, row in enumerate(photos):
        path = folder / "folder" / str(row["label"]) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(row["image"])
    tar = folder / "photos.tar"
    write_tar(tar, [{"png": row["image"], "cls": b"%d" % row["label"]} for row in photos])
    return [source_at(str(folder / "folder")), source_at(str(tar))]


def write_tar(path: Path, records: Sequence[dict[str, bytes]]) -> None:
    """Records of members by their endings."""
    with tarfile.open(path, "w") as archive:
        for number, members in enumerate(records):
            for ending, content in members.items():
                member = tarfile.TarInfo(f"{number:06}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def write_tfds(folder: Path, name: str, features: dict[str, Any], rows: Sequence[dict[str, Any]]) -> TFDS:
    """The rows as a prepared set."""

    class Rows(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = folder

        def _info(self) -> Any:
            record = tfds.features.FeaturesDict(features)
            return tfds.core.DatasetInfo(builder=self, features=record, disable_shuffling=True)

        def _split_generators(self, manager: Any) -> Any:
            return {"train": enumerate(rows)}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    Rows.name = name
    Rows(data_dir=folder / "tfds").download_and_prepare(file_format="array_record")
    return TFDS(name, str(folder / "tfds"))


if __name__ == "__main__":
    main()
