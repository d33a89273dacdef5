"""Every source of files: its records, its splits, what happens when files change, and broken rows."""

import io
import json
import re
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from txjax.data import (
    ArrowFiles,
    Bytes,
    FileSource,
    ImageFolder,
    JSONLines,
    LabelledText,
    NextTokenWindows,
    Tables,
    Tags,
    TextFiles,
    TokenLabels,
    WebDataset,
)
from txjax.data.sources import unpacked
from txjax.data.sources.media_folders import MediaFolder
from txjax.data.sources.source_of import source_at
from txjax.data.tfds.records import CorruptData
from txjax.types import UserError

from helpers import audio_set
from helpers.file_kinds import CLASSES, COMPRESSORS, WRITERS, Films, compress, kinds, rows, source_of

pytestmark = pytest.mark.claim(
    "Data", "files are records as they lie: splits by content; changes and broken rows are noticed"
)

SPLITS = ("train", "validation", "test")
every_kind = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)


def columns_of(source: FileSource) -> list[str]:
    return [name for name in ("text", "label", "score") if name in source.features(("label",))]


def read(source: FileSource, split: str) -> list[dict]:
    """The records of a split as they were written."""
    names = columns_of(source)
    records = source.open(split, names, (), ("label",))
    found = records.read(0, len(records))
    assert found == [records[index] for index in range(len(records))]
    plain = {"text": lambda x: x.decode().strip(), "label": lambda x: CLASSES[x], "score": float}
    return [{name: plain[name](record[name]) for name in names} for record in found]


def texts(source: FileSource, split: str) -> set[str]:
    return {record["text"] for record in read(source, split)}


def test_each_kind_of_files_is_under_this_contract():
    assert set(kinds()) == set(WRITERS)


@every_kind
def test_the_records_are_the_rows(kind, tmp_path):
    source = source_of(kind, tmp_path, rows())
    names = columns_of(source)
    assert names == (["text"] if kind is TextFiles else ["text", "label", "score"])
    everything = sorted((record for split in SPLITS for record in read(source, split)), key=lambda row: row["text"])
    assert everything == sorted(({name: row[name] for name in names} for row in rows()), key=lambda row: row["text"])
    both = read(source, "train+test")
    assert len(both) == len(read(source, "train")) + len(read(source, "test"))
    if kind is not TextFiles:
        assert source.features(("label",))["label"].names == list(CLASSES)
        assert source.features()["score"].np_dtype == np.float64


@every_kind
def test_a_record_stays_in_its_part_when_others_come(kind, tmp_path):
    source = source_of(kind, tmp_path, rows(200))
    parts = {split: texts(source, split) for split in SPLITS}
    assert 10 < len(parts["validation"]) < 32 and 10 < len(parts["test"]) < 32
    shutil.rmtree(tmp_path / "rows", ignore_errors=True)
    more = source_of(kind, tmp_path, rows(260))
    for split, part in parts.items():
        assert part == {text for text in texts(more, split) if int(text.split()[1]) < 200}


@every_kind
def test_equal_records_are_in_one_part(kind, tmp_path):
    source = source_of(kind, tmp_path, rows(20) * 4)
    parts = [texts(source, split) for split in SPLITS]
    assert sum(map(len, parts)) == 20


@every_kind
def test_files_named_by_a_split_are_it(kind, tmp_path):
    if issubclass(kind, MediaFolder):
        for split in ("train", "test"):
            for label in CLASSES:
                source_of(kind, tmp_path, rows(2), name=f"{split}-{label}")
                (tmp_path / "photos" / split).mkdir(parents=True, exist_ok=True)
                (tmp_path / f"{split}-{label}" / "metadata.jsonl").unlink()
                (tmp_path / f"{split}-{label}").rename(tmp_path / "photos" / split / label)
        source = kind(str(tmp_path / "photos"))
        assert [len(source.open(split, ["label"])) for split in ("train", "test")] == [6, 6]
        assert source.features()["label"].names == list(CLASSES)
        return
    source_of(kind, tmp_path, rows(5), name="train-00000-of-00002")
    source_of(kind, tmp_path, rows(5, 5), name="train-00001-of-00002")
    source = source_of(kind, tmp_path, rows(3, 10), name="valid")
    assert {text.split()[1] for text in texts(source, "train")} == {str(number) for number in range(10)}
    assert {text.split()[1] for text in texts(source, "valid")} == {"10", "11", "12"}
    with pytest.raises(UserError, match=r"data\.split: expected splits of .* \(train, validation\), .*got 'test'"):
        source.check("test")


def test_rows_of_tables_have_line_breaks_and_quotes_and_a_mark_of_their_encoding(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes('\ufefftext,label\r\n"one,\n""two""",bad\r\n\r\nthree,good\r\nfour\r\n'.encode())
    with pytest.raises(CorruptData, match=r"rows.csv: line 6: expected 2 values, as in the first row, got 1"):
        Tables(str(path)).features()
    records = Tables(str(path), held_out=0.0, corrupt="skip").open("train", ["text", "label"])
    assert [records[i]["text"] for i in range(len(records))] == [b'one,\n"two"', b"three"]
    path.write_text('text,label\n"one,bad\ntwo,good\n')
    with pytest.raises(CorruptData, match=r"rows.csv: line 2: unexpected end of data"):
        Tables(str(path)).features()
    path.write_text("text,text\na,b\n")
    with pytest.raises(UserError, match=r"data\.source: expected .*a first row that names each column once"):
        Tables(str(path)).features()


def test_numbers_of_tables_are_numbers_where_all_are(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("whole\tnumber\tsome\n1\t1.5\t1\n2\t\tb\n")
    features = source_at(str(path)).features()
    assert [str(features[name].np_dtype.__name__) for name in ("whole", "number")] == ["int64", "float64"]
    assert type(features["some"]).__name__ == "Text"
    assert type(Tables(str(path), separator="\t", kinds={"whole": "text"}).features()["whole"]).__name__ == "Text"
    with pytest.raises(UserError, match="data.source.kinds: expected columns"):
        Tables(str(path), separator="\t", kinds={"wole": "text"}).features()


@pytest.mark.parametrize("ending", COMPRESSORS)
@pytest.mark.parametrize("kind", [JSONLines, Tables, TextFiles, WebDataset], ids=lambda kind: kind.__name__)
def test_compressed_files_are_unpacked_once(kind, ending, tmp_path):
    plain = source_of(kind, tmp_path, rows())
    wanted = read(plain, "train")
    packed = compress(next(tmp_path.iterdir()), ending)
    source = source_at(str(packed))
    assert type(source) is kind and read(kind(str(packed), **WRITERS[kind][2]), "train") == wanted
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(UserError, match=rf"data\.source: expected a whole \{ending} file, got '.*{ending}: "):
        kind(str(packed), **WRITERS[kind][2]).features()


def test_frames_of_a_compressed_file_are_read_to_its_end(tmp_path, monkeypatch):
    """As several threads write it, or `cat` joins them; wherever the bytes that are read at a time end."""
    monkeypatch.setattr(unpacked, "BUFFER", 100)
    frames = [zstandard.compress(f'{{"text": "{number} {"ab" * number}"}}\n'.encode()) for number in range(300)]
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(b"".join(frames))
    assert len(JSONLines(str(path), held_out=0.0).open("train", ["text"])) == 300
    path.write_bytes(b"".join(frames[:-1]) + frames[-1][:3])
    with pytest.raises(UserError, match=r"data\.source: expected a whole \.zst file, got '.*zst: it ends inside of"):
        JSONLines(str(path)).features()


def test_a_source_of_ones_own_is_a_function(tmp_path):
    source = Films()
    assert read(source, "train") and sum(len(read(source, split)) for split in SPLITS) == 60
    data = LabelledText(source=source, text=("text",), label="label", classes=3, length=32)
    assert data.open().example(0, 0, None)["label"] in (0, 1, 2)


def test_an_object_of_datasets_has_its_classes(tmp_path):
    """The library's own files name classes and pictures in their schema."""
    import pyarrow as pa

    features = {"label": {"names": ["no", "yes"], "_type": "ClassLabel"}, "text": {"dtype": "string", "_type": "Value"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    table = pa.table({"text": ["a", "b", "c"], "label": [1, 0, 1]}).replace_schema_metadata(metadata)
    path = tmp_path / "data-00000-of-00001.arrow"
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    source = source_at(str(path))
    records = source.open("train+validation+test", ["label"], (), ("label",))
    assert source.features(("label",))["label"].names == ["no", "yes"]
    assert [records[i]["label"] for i in range(3)] == [1, 0, 1]


@pytest.mark.parametrize("form", ["Sequence", "List", "list"])
def test_an_object_of_datasets_has_lists_of_classes(form, tmp_path):
    """As labels of words, and as several classes of a text; in the forms of its older and newer versions."""
    import pyarrow as pa

    item = {"names": ["O", "PER"], "_type": "ClassLabel"}
    features = {"ner": [item] if form == "list" else {"feature": item, "_type": form}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    columns = {"tokens": [["Ann", "sang"], ["Go"], ["O", "Bob"]], "text": ["a", "b", "c"], "ner": [[1, 0], [0], [0, 1]]}
    table = pa.table(columns).replace_schema_metadata(metadata)
    path = tmp_path / "data.arrow"
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)
    source = ArrowFiles(str(path), held_out=0)
    words = TokenLabels(source=source, label="ner", tokenizer=Bytes(("[CLS]", "[SEP]")), length=16)
    assert words.class_names() == ("O", "PER")
    targets = words.open().example(0, 0, None)["targets"]
    assert targets[1] == 1 and set(targets.tolist()) == {0, 1}
    tags = LabelledText(source=source, text=("text",), label=Tags("ner")).open()
    assert [tags.example(i, 0, None)["labels"].tolist() for i in range(3)] == [[1, 1], [1, 0], [1, 1]]


def test_members_of_a_tar_file_are_columns_by_their_endings(tmp_path):
    picture, sound = audio_set.file(audio_set.noise(40)), b"\x89PNG picture"
    files = {"a/1.jpg": sound, "a/1.cls": b"3\n", "a/2.x.txt": b"", "b.wav": picture, "b.json": b'{"said": "one"}'}

    def write(**members):
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            for name, content in members.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                if name.endswith("link.txt"):
                    member.type, member.linkname, member.size = tarfile.SYMTYPE, "/etc/passwd", 0
                archive.addfile(member, io.BytesIO(content))
        return source_at(str(tmp_path / "a.tar"))

    with pytest.raises(UserError, match=r"data.source: expected members .*, got '.*a.tar: a/2.x.txt'"):
        write(**files).features()
    with pytest.raises(UserError, match=r"data.source: expected a tar file of plain files, got '.*a.tar: link.txt'"):
        write(**{"1.txt": b"a", "link.txt": b""}).features()
    rows = write(**{name: content for name, content in files.items() if ".x." not in name}).table().rows
    assert [rows.row(n) for n in range(2)] == [
        {"key": "a/1", "image": sound, "label": "3"},
        {"key": "b", "audio": picture, "said": "one"},
    ]
    for others in ({"b.json": b'{"audio": "one"}'}, {"b.flac": b"another"}, {"b.json": b'{"key": "c"}'}):
        rows = write(**{"b.wav": picture}, **others).table().rows
        with pytest.raises(CorruptData, match="a.tar: b.(json|flac): '(audio|key)' is another member's column, too"):
            rows.row(0)
    assert write(**{"b.txt": b"a", "b.json": b'{"key": "b"}'}).table().rows.row(0) == {"key": "b", "text": "a"}
    path = tmp_path / "a.tar"
    path.write_bytes(path.read_bytes()[:1100])
    with pytest.raises(UserError, match=r"data.source: expected a whole tar file, got '.*a.tar"):
        source_at(str(path)).features()


def test_no_link_leads_out_of_a_folder(tmp_path):
    source = source_of(ImageFolder, tmp_path, rows(4))
    shutil.copy(tmp_path / "rows" / "0.png", tmp_path / "secret.png")
    (tmp_path / "rows" / "5.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(UserError, match="expected files inside of the folder, got '.*5.png, a link out"):
        source.features()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none/*.jsonl", "expected a file, or a pattern of files, got 'none/.*jsonl'"),
        ("rows.jsn", "expected a path or pattern that ends with one of .json, .* did you mean .json"),
        (".", "a folder needs a pattern"),
    ],
)
def test_a_path_that_says_nothing_is_one_message(path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"data\.source: {message}|{message}"):
        NextTokenWindows(source=path, length=8).check()


def test_a_path_as_a_name_says_what_to_write(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    for name in ("notes/*.txt", "notes"):
        with pytest.raises(UserError, match=rf"data\.name: .*data\.source={re.escape(name)} reads files"):
            NextTokenWindows(name=name, length=8).check()
