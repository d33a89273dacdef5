"""Measures how long a random row of each kind of files takes to read, beside the same rows of TFDS.

python benchmarks/sources.py [--rows=100000]
"""

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import tensorflow_datasets as tfds

from txjax.data import TFDS
from txjax.data.sources.record_source import Records
from txjax.data.sources.source_of import source_at

READS = 20_000
WORDS = ("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    count = parser.parse_args().rows
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=40)) for _ in range(count)]
    rows = [{"text": text, "label": number % 5} for number, text in enumerate(texts)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared = write_tfds(folder, rows)
        base = microseconds(TFDS("rows", str(prepared)).open("train", ["text", "label"]))
        print("source | index in s | row in us | of TFDS")
        print(f"array_record by TFDS | - | {base:.1f} | 1.00")
        for path in write_files(folder, rows):
            start = time.perf_counter()
            source = source_at(str(path))
            records = source.open("train", ["text", "label"])
            index = time.perf_counter() - start
            row = microseconds(records)
            print(f"{path.name} | {index:.1f} | {row:.1f} | {row / base:.2f}")


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


def write_files(folder: Path, rows: Sequence[dict[str, Any]]) -> list[Path]:
    """The rows as files of several kinds."""
    lines, table, parquet, arrow = (folder / f"rows.{ending}" for ending in ("jsonl", "csv", "parquet", "arrow"))
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows(row.values() for row in rows)
    columns = pa.Table.from_pylist(list(rows))
    pa.parquet.write_table(columns, parquet, row_group_size=10_000)
    with pa.ipc.new_stream(arrow, columns.schema) as writer:
        writer.write_table(columns, 1000)
    return [lines, table, parquet, arrow]


def write_tfds(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """The rows as a prepared set; returns the folder that has it."""

    class Rows(tfds.core.GeneratorBasedBuilder, skip_registration=True):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = folder

        def _info(self) -> Any:
            features = tfds.features.FeaturesDict({"text": tfds.features.Text(), "label": np.int64})
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, manager: Any) -> Any:
            return {"train": enumerate(rows)}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    Rows.name = "rows"
    Rows(data_dir=folder / "tfds").download_and_prepare(file_format="array_record")
    return folder / "tfds"


if __name__ == "__main__":
    main()
