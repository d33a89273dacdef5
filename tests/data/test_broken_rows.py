"""A broken row of any kind of files is one message with its place, or left out and counted; odd ones are read."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from PIL import Image

from txjax.data import (
    ArrowFiles,
    AudioFolder,
    FileSource,
    ImageFolder,
    Images,
    JSONArrays,
    JSONLines,
    LabelledAudio,
    ParquetFiles,
    Tables,
    TextFiles,
    WebDataset,
    eval_batches,
)
from txjax.data.sources.source_of import source_at
from txjax.data.tfds.records import CorruptData
from txjax.types import UserError

from helpers import audio_set
from helpers.file_kinds import WRITERS, members_of, rows, source_of, write_members

pytestmark = pytest.mark.claim(
    "Data", "broken rows of every kind of files: one line with file and row, or left out and counted"
)

BOM = "\ufeff".encode()
NAN = float("nan")
COUNT = 1100  # more than the rows by which columns are known
AT = {"first": 20, "later": 1050}  # where the broken row is


LINES = {
    (JSONLines, "cut JSON"): (b'{"text": "a", "label": "b"', "JSON|delimiter|Expecting"),
    (JSONLines, "no object"): (b'["a", "b"]', "expected a JSON object"),
    (JSONLines, "missing field"): (b'{"label": "bad", "score": 1.0}', "no 'text'; it has label"),
    (JSONLines, "other type"): (b'{"text": ["a"], "label": "bad", "score": 1.0}', r"'text' is no text: \['a'\]"),
    (JSONLines, "null"): (b'{"text": null, "label": "bad", "score": 1.0}', "'text' is no text: None"),
    (JSONLines, "no number"): (b'{"text": "a", "label": "bad", "score": "x"}', "'score' is no number: 'x'"),
    (JSONLines, "wrong encoding"): (b'{"text": "caf\xe9", "label": "bad", "score": 1.0}', "utf-8"),
    (JSONLines, "NaN"): (b'{"text": "a", "label": "bad", "score": NaN}', "NaN is no number of JSON"),
    (JSONLines, "deep"): (b"[" * 100_000, "JSON that is nested too deeply"),
    (JSONLines, "BOM inside"): (BOM + b'{"text": "a", "label": "bad", "score": 1.0}', "BOM"),
    (Tables, "missing field"): (b"a,bad", "expected 3 values, as in the first row, got 2"),
    (Tables, "extra field"): (b"a,bad,1.0,more", "expected 3 values, as in the first row, got 4"),
    (Tables, "no number"): (b"a,bad,x", "'score' is no number: 'x'"),
    (Tables, "NaN"): (b"a,bad,nan", "'score' is no number: 'nan'"),
    (Tables, "wrong encoding"): (b"caf\xe9,bad,1.0", "utf-8"),
    (Tables, "text after a quote"): (b'"a" b,bad,1.0', "expected after"),
}
COLUMNS = {
    "null": ({"text": None}, "'text' is no text: None"),
    "NaN": ({"score": NAN}, "'score' is no number: nan"),
}
MEMBERS = {
    "cut JSON": ({"json": b'{"label": '}, r"00020.json: Expecting"),
    "missing field": ({"json": b'{"label": "bad"}'}, "no 'score'; it has key, text, label"),
    "missing member": ({"txt": None}, "no 'text'; it has key"),
    "other type": ({"json": b'{"label": "bad", "score": [1]}'}, r"'score' is no number: \[1\]"),
    "wrong encoding": ({"txt": b"caf\xe9"}, "00020.txt: 'utf-8'"),
    "NaN": ({"json": b'{"label": "bad", "score": NaN}'}, "00020.json: NaN is no number of JSON"),
}


def check_broken(source: FileSource, kind: type[FileSource], place: str, message: str, caplog, **fields) -> None:
    """One row of all is broken: an error of one line, or left out with one warning."""

    def read(corrupt: str) -> int:
        opened = kind(source.paths, held_out=0.0, corrupt=corrupt, **fields)
        records = opened.open("train", ["text", "label", "score"] if kind is not TextFiles else ["text"])
        records.read(0, len(records))
        return len(records)

    with pytest.raises((CorruptData, UserError)) as error:
        read("refuse")
    assert place in str(error.value) and "\n" not in str(error.value)
    error.match(message)
    caplog.clear()
    assert read("skip") == COUNT - 1
    (warning,) = [text for text in caplog.messages if "broken" in text]
    assert warning.startswith("1 of 1") and place in warning


@pytest.mark.parametrize("where", AT)
@pytest.mark.parametrize(("kind", "fault"), LINES, ids=lambda value: getattr(value, "__name__", value))
def test_lines(kind, fault, where, tmp_path, caplog):
    line, message = LINES[kind, fault]
    source = source_of(kind, tmp_path, rows(COUNT))
    path = Path(source.paths.replace("*", "rows"))
    content = path.read_bytes().splitlines(keepends=True)
    row = AT[where] + (kind is Tables)
    path.write_bytes(b"".join([*content[:row], line + b"\n", *content[row + 1 :]]))
    check_broken(source, kind, f"{path}: line {row + 1}: ", message, caplog)


@pytest.mark.parametrize("where", AT)
@pytest.mark.parametrize("kind", [ArrowFiles, ParquetFiles])
@pytest.mark.parametrize(("change", "message"), COLUMNS.values(), ids=COLUMNS)
def test_columns(kind, change, message, where, tmp_path, caplog):
    content = rows(COUNT)
    content[AT[where]] |= change
    source = source_of(kind, tmp_path, content)
    check_broken(source, kind, f"rows{WRITERS[kind][1]}: row {AT[where]}: ", message, caplog)


ENTRIES = {
    "no object": (["a"], "expected a JSON object"),
    "missing field": ({"label": "bad", "score": 1.0}, "no 'text'; it has label, score"),
    "other type": ({"text": ["a"], "label": "bad", "score": 1.0}, r"'text' is no text: \['a'\]"),
    "NaN": ({"text": "a", "label": "bad", "score": NAN}, "NaN is no number of JSON"),
}


@pytest.mark.parametrize("where", AT)
@pytest.mark.parametrize(("entry", "message"), ENTRIES.values(), ids=ENTRIES)
def test_entries(entry, message, where, tmp_path, caplog):
    content: list[object] = [*rows(COUNT)]
    content[AT[where]] = entry
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(content))
    check_broken(JSONArrays(str(path)), JSONArrays, f"{path}: entry {AT[where] + 1}: ", message, caplog)


@pytest.mark.parametrize("content", [b'[{"text": "a"}, {"text": ', b'[{"text": "caf\xe9"}]', b'{"text": "a"}'])
def test_a_list_that_is_none(content, tmp_path):
    (tmp_path / "rows.json").write_bytes(content)
    with pytest.raises(UserError, match="expected a file with a JSON list of objects, got ..*rows.json: ") as error:
        JSONArrays(str(tmp_path / "rows.json"), corrupt="skip").features()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [ArrowFiles, ParquetFiles])
def test_columns_of_another_encoding(kind, tmp_path, caplog):
    content = rows(COUNT)
    texts = pa.array([row["text"].encode() for row in content[:20]] + [b"caf\xe9"] + [b"a"] * (COUNT - 21))
    columns = {name: [row[name] for row in content] for name in ("label", "score")}
    table = pa.table({"text": pa.Array.from_buffers(pa.string(), COUNT, texts.buffers()), **columns})
    path = tmp_path / f"rows{WRITERS[kind][1]}"
    if kind is ParquetFiles:
        pa.parquet.write_table(table, path)
    else:
        with pa.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    check_broken(kind(str(path)), kind, f"{path}: row 20: ", r"'text' is no text: b'caf\\xe9'", caplog)


@pytest.mark.parametrize(("change", "message"), MEMBERS.values(), ids=MEMBERS)
def test_members(change, message, tmp_path, caplog):
    records = [members_of(row) for row in rows(COUNT)]
    records[20] = {ending: content for ending, content in (records[20] | change).items() if content is not None}
    write_members(tmp_path / "rows.tar", records)
    source = WebDataset(str(tmp_path / "rows.tar"))
    check_broken(source, WebDataset, f"{tmp_path}/rows.tar: rows/00020", message, caplog)


def test_texts(tmp_path, caplog):
    path = tmp_path / "rows.txt"
    path.write_bytes(b"".join(b"line %d\n" % n if n != 20 else b"caf\xe9\n" for n in range(COUNT)))
    check_broken(TextFiles(str(path)), TextFiles, f"{path}: line 21: ", "utf-8", caplog, block=1)


@pytest.mark.parametrize("kind", [ImageFolder, AudioFolder])
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"file_name": ', "Expecting value"),
        (b'["a"]', "expected a JSON object"),
        (b'{"file_name": "caf\xe9"}', "utf-8"),
        (b'{"text": "a"}', "expected a file of .* as (file_name|audio)"),
        (b'{"file_name": "none.png", "audio": "none.wav"}', "expected a file that is in"),
    ],
)
def test_lists_of_files(kind, line, message, tmp_path, caplog):
    source = source_of(kind, tmp_path, rows(30))
    listing = tmp_path / "rows" / "metadata.jsonl"
    content = listing.read_bytes().splitlines()
    listing.write_bytes(b"\n".join([*content[:20], line, *content[21:]]))
    with pytest.raises(UserError, match=message) as error:
        source.features()
    assert f"{listing}: line 21: " in str(error.value) and "\n" not in str(error.value)
    skipping = kind(source.paths, corrupt="skip", held_out=0.0)
    assert len(skipping.open("train", ["text"])) == 29
    warnings = [text for text in caplog.messages if "left out" in text]
    assert warnings[0].startswith(f"1 rows of the lists of {source.paths} are broken and left out, the first: ")
    assert warnings[1].startswith(f"1 files in {source.paths} have no line of metadata.jsonl and are left out")


def test_odd_rows_are_rows(tmp_path):
    """A mark of the encoding at the start, fields that few rows have, empty texts, line breaks between quotes."""

    def read(name: str, content: bytes) -> list[bytes]:
        (tmp_path / name).write_bytes(content)
        source = source_at(str(tmp_path / name))
        records = type(source)(source.paths, held_out=0.0, corrupt="skip", **WRITERS[type(source)][2])
        opened = records.open("train", ["text"])
        return [opened[index]["text"] for index in range(len(opened))]

    texts = [b"one", b"", b"three\nfour"]
    objects = [{"text": "one"}, {"text": "", "note": "extra"}, {"text": "three\nfour"}]
    assert read("a.jsonl", BOM + b"\n".join(json.dumps(row).encode() for row in objects)) == texts
    assert read("a.csv", BOM + b'text,x\none,1\n"",2\n"three\nfour",3\n') == texts
    assert read("a.txt", BOM + b"one\n\ntwo\xe2\x80\xa8three\n") == [b"one", "two\u2028three".encode()]
    write_members(tmp_path / "a.tar", [{"txt": BOM + b"one"}, {"json": BOM + b'{"text": ""}'}])
    assert read("a.tar", (tmp_path / "a.tar").read_bytes()) == [b"one", b""]
    (tmp_path / "photos").mkdir()
    names = ["a\u2028b.png", "c.png"]
    for name in names:
        (tmp_path / "photos" / name).write_bytes(photo())
    objects = [{"file_name": name, "text": name} for name in names]
    listed = "\n".join(json.dumps(row, ensure_ascii=False) for row in objects)
    (tmp_path / "photos" / "metadata.jsonl").write_bytes(BOM + listed.encode())
    assert len(ImageFolder(str(tmp_path / "photos")).open("train+validation+test", ["text"])) == 2


def photo(seed: int = 0, dtype: type = np.uint8) -> bytes:
    pixels = np.random.default_rng(seed).integers(256, size=(4, 4) if dtype == np.uint16 else (4, 4, 3))
    content = io.BytesIO()
    Image.fromarray(pixels.astype(dtype)).save(content, "png")
    return content.getvalue()


PHOTOS = {"cut image": (photo()[:-30], "OSError|truncated"), "16-bit image": (photo(0, np.uint16), "more than 8 bits")}


def write_photos(kind: type[FileSource], folder: Path, contents: list[bytes]) -> FileSource:
    if kind is ImageFolder:
        (folder / "a").mkdir()
        for number, content in enumerate(contents):
            (folder / "a" / f"{number:05}.png").write_bytes(content)
        return ImageFolder(str(folder), held_out=0.0)
    if kind is WebDataset:
        write_members(folder / "rows.tar", [{"png": content, "cls": b"a"} for content in contents])
        return WebDataset(str(folder / "rows.tar"), held_out=0.0)
    table = pa.table({"image": contents, "label": ["a"] * len(contents)})
    pa.parquet.write_table(table, folder / "rows.parquet")
    return ParquetFiles(str(folder / "rows.parquet"), held_out=0.0)


@pytest.mark.parametrize("kind", [ImageFolder, WebDataset, ParquetFiles])
@pytest.mark.parametrize(("content", "message"), PHOTOS.values(), ids=PHOTOS)
def test_images(kind, content, message, tmp_path, caplog):
    contents = [photo(seed) for seed in range(8)]
    contents[5] = content
    source = write_photos(kind, tmp_path, contents)
    place = {ImageFolder: "a/00005.png", WebDataset: "rows.tar: rows/00005", ParquetFiles: "rows.parquet: row 5"}[kind]
    data = Images(source=source, shape=(4, 4, 3))
    with pytest.raises(UserError, match=message) as error:
        list(eval_batches(data.open(), batch_size=8))
    assert place in str(error.value)
    skipping = Images(source=source, shape=(4, 4, 3), corrupt="skip")
    (batch,) = eval_batches(skipping.open(), batch_size=8)
    assert batch["weights"].tolist() == [1] * 5 + [0] + [1] * 2
    assert any(place in text and "left out (1 so far)" in text for text in caplog.messages)


@pytest.mark.parametrize("kind", [AudioFolder, WebDataset])
def test_recordings(kind, tmp_path, caplog):
    """A cut file and one of NaN are left out; stereo is mixed, another rate is resampled, and both are logged."""
    whole = [audio_set.noise(400, seed) for seed in range(4)]
    contents = [audio_set.file(samples) for samples in whole]
    contents[1] = contents[1][:-100]
    contents[2] = audio_set.file(np.full(400, np.nan, np.float32), subtype="FLOAT")
    contents += [audio_set.file(audio_set.noise(400, 5, channels=2)), audio_set.file(audio_set.noise(200), 4000)]
    if kind is AudioFolder:
        (tmp_path / "a").mkdir()
        for number, content in enumerate(contents):
            (tmp_path / "a" / f"{number:05}.wav").write_bytes(content)
        source: FileSource = AudioFolder(str(tmp_path), held_out=0.0)
    else:
        write_members(tmp_path / "rows.tar", [{"wav": content, "cls": b"a"} for content in contents])
        source = WebDataset(str(tmp_path / "rows.tar"), held_out=0.0)
    place = {AudioFolder: "a/00001.wav", WebDataset: "rows.tar: rows/00001"}[kind]
    with pytest.raises(UserError, match=f"{place}.*truncated: 100 bytes"):
        LabelledAudio(source=source, rate=8000, samples=400).open()
    data = LabelledAudio(source=source, rate=8000, samples=400, unusable="skip").open()
    (batch,) = eval_batches(data, batch_size=6)
    assert batch["weights"].sum() == 4
    messages = " ".join(caplog.messages)
    assert "resampled" in messages and "the channels of 1 recordings are mixed" in messages and "left out" in messages
