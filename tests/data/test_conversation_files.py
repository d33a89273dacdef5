"""LLaVA's JSON beside images is a source."""

import json

import numpy as np
import pytest

from txjax.data import ConversationFiles, Conversations
from txjax.data.sources import file_source
from txjax.data.tfds.records import CorruptData
from txjax.types import UserError

from helpers.conversation_folder import entry, pixels, write

SMALL = dict(image_tokens=2, length=300, shape=(4, 4, 3))


def read(paths: str, split: str = "train", **fields):
    """The records of a split with their messages and images."""
    records = ConversationFiles(paths, **fields).open(split, ["conversations", "files"], ["images"])
    return [records[index] for index in range(len(records))]


def test_each_file_is_a_split(tmp_path):
    first = entry("<image>\nWhat?", "A cat.", image="cats/a.png", id="7")
    folder = write(tmp_path, {"cats/a.png": pixels(1)}, train=[first, entry("Hi.", "Hello.")], valid=[first])
    source = Conversations(source=folder, **SMALL).open()
    assert len(source) == 2 and source.place(0) == f"{tmp_path}/train.json: entry 1"
    assert len(Conversations(split="valid", source=folder, **SMALL).open()) == 1
    with pytest.raises(UserError, match="data.split: expected splits of .* .train, validation., .* got 'test'"):
        Conversations(split="test", source=folder, **SMALL).check()
    assert read(f"{folder}/*.json")[0] == {
        "conversations": {"from": [b"human", b"gpt"], "value": [b"<image>\nWhat?", b"A cat."]},
        "files": [b"cats/a.png"],
        "images": [(tmp_path / "cats" / "a.png").read_bytes()],
    }


def test_a_file_of_another_name_has_held_out_parts_or_none(tmp_path):
    write(tmp_path, {}, **{"mix-665k": [entry("Hi.", f"Hello {number}.") for number in range(60)]})
    path = f"{tmp_path}/mix-665k.json"
    parts = [len(read(path, split)) for split in ("train", "validation", "test")]
    assert sum(parts) == 60 and min(parts) > 0 and len(read(path, held_out=0.0)) == 60


def test_lines_and_images_of_another_folder(tmp_path):
    write(tmp_path / "photos", {"a.png": pixels(1)})
    (tmp_path / "train.jsonl").write_text(json.dumps(entry("<image>", "One.", image="a.png")) + "\n")
    (record,) = read(f"{tmp_path}/train.jsonl", images=f"{tmp_path}/photos")
    assert record["images"] == [(tmp_path / "photos" / "a.png").read_bytes()]
    assert read(f"{tmp_path}/train.jsonl")[0]["images"] == [b""]


def test_an_image_that_changes(tmp_path, monkeypatch):
    folder = write(tmp_path, {"a.png": pixels(1)}, train=[entry("<image>", "One.", image="a.png")])
    data = Conversations(source=folder, **SMALL)
    before = data.open()
    write(tmp_path, {"a.png": pixels(2, 5, 5)})
    with pytest.raises(CorruptData, match="a.png has changed since the run began"):
        before.example(0, 0, np.random.default_rng(0))
    monkeypatch.setattr(file_source, "_opened", {})  # as in another process
    after = data.open()
    assert before.fingerprint != after.fingerprint
    with pytest.raises(UserError, match=r"data.shape: expected \(5, 5, 3\) as of .*train.json: entry 1"):
        after.example(0, 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", r"expected a file with a JSON list of objects, got '.*train.json: Expecting property"),
        ("[{} {}]", r"train.json: Expecting ',' delimiter: line 1 column 4"),
        ("{}", "train.json: it begins with '{}'"),
        ("[]", "expected files with rows"),
        ("[" * 100_000, "train.json: maximum recursion"),
    ],
)
def test_files_that_are_no_lists(tmp_path, content, message):
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read(f"{tmp_path}/*.json")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[1]", r"expected a JSON object, got '\[1\]'"),
        ('{"id": 1}', r"expected {\"id\": \"7\".*got"),
        ('{"conversations": [{"from": "human"}]}', r"expected {\"id\""),
        ('{"conversations": [{"from": "human", "value": 3}]}', r"expected {\"id\""),
        ('{"conversations": [], "image": 3}', "expected as image the path of a file, or a list of these, got 3"),
        ('{"conversations": [], "image": "../a.png"}', "expected as image a path inside the folder, got '../a.png'"),
    ],
)
def test_an_entry_that_is_no_conversation(tmp_path, caplog, row, message):
    (tmp_path / "train.json").write_text(f"[{json.dumps(entry('Hi.', 'Hello.'))},\n {row}\n]")
    with pytest.raises(CorruptData, match=f"{tmp_path}/train.json: entry 2: {message}") as error:
        read(f"{tmp_path}/*.json")
    assert "\n" not in str(error.value)
    assert len(read(f"{tmp_path}/*.json", corrupt="skip")) == 1
    assert "1 of 2 rows of" in caplog.text


def test_no_link_leads_out_of_the_folder(tmp_path):
    write(tmp_path / "photos", {"a.png": pixels(1)})
    (tmp_path / "talk").mkdir()
    write(tmp_path / "talk", {}, train=[entry("<image>", "One.", image="b/a.png")])
    (tmp_path / "talk" / "b").symlink_to(tmp_path / "photos")
    with pytest.raises(UserError, match="expected files inside of .*talk, got '.*talk/b/a.png, a link out of it"):
        read(f"{tmp_path}/talk/*.json")


def test_paths_without_a_file(tmp_path):
    with pytest.raises(UserError, match="data.source: expected a file, or a pattern of files"):
        Conversations(source=str(tmp_path), **SMALL).check()
    with pytest.raises(UserError, match="data.source: expected the path of files, .*config.data.source=PATH"):
        Conversations(source=ConversationFiles(), **SMALL).check()
