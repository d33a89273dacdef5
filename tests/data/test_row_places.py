"""Rows of large files of lines; a changed byte is noticed in its block; rows are hashed where a split asks for it."""

import csv
import dataclasses
import io
import json
import os
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

from txjax.data import JSONLines, Tables, TextFiles
from txjax.data.sources.file_blocks import BLOCK, CHUNK
from txjax.data.tfds.records import CorruptData

pytestmark = pytest.mark.claim(
    "Data", "rows of large files: where they lie, and a checksum of each block; hashed where a split asks for it"
)

SIZE = 2 * CHUNK + 100  # bytes of a file that is read in several parts


def random_texts(seed: int, letters: str, mean: int = 200) -> list[str]:
    """Texts of random lengths, so many that they cross every bound of the parts that are read."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 / mean, size=2 * SIZE // mean).tolist()
    content = "".join(rng.choice(list(letters), size=sum(lengths)).tolist())
    ends = np.cumsum(lengths).tolist()
    return [content[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def texts_of(source: JSONLines | Tables | TextFiles) -> list[str]:
    """The column `text` of all rows, in the order of the file."""
    rows = source.table().rows
    return [rows.row(number)["text"] for number in range(int(rows.firsts[-1]))]


@pytest.mark.parametrize("letters", ["ab,", 'ab,"\n'])
def test_rows_of_a_table_are_as_the_csv_module_reads_them(letters, tmp_path):
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([["text", "label"], *([f"x{text}", "a"] for text in random_texts(0, letters))])
    (tmp_path / "rows.csv").write_text(file.getvalue(), newline="")
    assert len(file.getvalue()) > SIZE
    expected = [row["text"] for row in csv.DictReader(io.StringIO(file.getvalue(), newline=""))]
    assert texts_of(Tables(str(tmp_path / "rows.csv"))) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n \n", "\n\n\r\n"])
def test_rows_of_lines_are_the_lines_with_content(newline, tmp_path):
    texts = random_texts(1, "ab ")
    lines = [json.dumps({"text": text}) for text in texts]
    (tmp_path / "rows.jsonl").write_text(newline.join(lines), newline="")
    assert texts_of(JSONLines(str(tmp_path / "rows.jsonl"))) == texts


@pytest.mark.parametrize("block", [1, 700, 3 * CHUNK])
def test_blocks_of_text_are_the_next_whole_lines(block, tmp_path):
    content = "".join(text.strip("\n") + "\n" for text in random_texts(2, "\n" + 100 * "a"))
    (tmp_path / "rows.txt").write_text(content)
    expected, begin = [], 0
    while begin < len(content):
        end = content.find("\n", begin + block - 1) + 1 or len(content)
        expected.append(content[begin:end])
        begin = end
    expected = [text.rstrip("\n") for text in expected if text.strip() or len(text) > 2]
    assert texts_of(TextFiles(str(tmp_path / "rows.txt"), block=block)) == expected


def write_lines(path: Path, count: int = 3000) -> list[dict]:
    rows = [{"text": f"film {number} was " + "good " * 10} for number in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert path.stat().st_size > 3 * BLOCK
    return rows


def change_a_byte(path: Path, place: int) -> None:
    """Size and time of change stay as they are."""
    stat = path.stat()
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_a_changed_byte_is_noticed_in_its_block_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    written = write_lines(path)
    rows = JSONLines(str(path)).table().rows
    size = path.stat().st_size // len(written)
    changed = (BLOCK + BLOCK // 2) // size  # a row about the middle of the second block
    assert [rows.row(number) for number in range(len(written))] == written
    change_a_byte(path, BLOCK + BLOCK // 2)
    assert rows.row(0) == written[0] and rows.row(len(written) - 1) == written[-1]
    for number in (changed - 10, changed + 10):
        with pytest.raises(CorruptData, match="rows.jsonl: line (.*) to line (.*): its bytes have changed") as error:
            rows.row(number)
    first, last = (int(word) for word in str(error.value).replace(":", "").split() if word.isdigit())
    assert first < changed < last and last - first == pytest.approx(BLOCK / size, rel=0.1)
    change_a_byte(path, BLOCK + BLOCK // 2)
    assert rows.row(changed) == written[changed]


def test_other_bytes_of_the_same_size_and_time_are_noticed_by_the_index_of_the_first_ones(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_lines(path)
    source = JSONLines(str(path))
    source.features()
    change_a_byte(path, 20)
    with pytest.raises(CorruptData, match=r"rows.jsonl: line 1 to line \d+: its bytes have changed since it was index"):
        dataclasses.replace(source, held_out=0.2).features()  # is opened anew


def test_rows_are_hashed_once_and_where_a_split_asks_for_it(tmp_path, monkeypatch):
    """A file that is moved and touched is not hashed again."""
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))
    hashes = lambda: list((tmp_path / "cache" / "rows").glob("*/digests.npy"))  # noqa: E731
    path = tmp_path / "rows.jsonl"
    rows = write_lines(path)
    assert len(JSONLines(str(path), held_out=0.0).open("train", ["text"])) == len(rows)
    shutil.copy(path, tmp_path / "train.jsonl")
    assert len(JSONLines(str(tmp_path / "train.jsonl")).open("train", ["text"])) == len(rows)
    assert not hashes()
    before = JSONLines(str(path)).open("test", ["text"])
    (file,) = hashes()
    assert np.load(file).tolist() == [zlib.crc32(line) for line in path.read_bytes().splitlines(keepends=True)]
    time = file.stat().st_mtime_ns
    path.rename(tmp_path / "moved.jsonl")
    os.utime(tmp_path / "moved.jsonl", ns=(0, 0))
    after = JSONLines(str(tmp_path / "moved.jsonl")).open("test", ["text"])
    assert after.fingerprint == before.fingerprint and len(after) == len(before)
    assert hashes() == [file] and file.stat().st_mtime_ns == time
