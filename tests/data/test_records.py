"""Prepared sets are found and read; a missing one is a one-line error with the command that prepares it."""

import io
import json
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from txjax.data.tfds import records
from txjax.data.tfds.records import CorruptData, Records
from txjax.types import UserError


@pytest.fixture
def foreign(tmp_path):
    """A prepared set without installed code: the digits under another name."""
    Records("txjax_digits", "test", None, ["label"])
    old = records.folder("txjax_digits", None) / "txjax_digits" / "1.0.0"
    new = tmp_path / "squiggles" / "1.0.0"
    shutil.copytree(old, new)
    for path in list(new.iterdir()):
        path.rename(path.with_name(path.name.replace("txjax_digits", "squiggles")))
    info = json.loads((new / "dataset_info.json").read_text())
    (new / "dataset_info.json").write_text(json.dumps(info | {"name": "squiggles", "moduleName": "elsewhere"}))
    return tmp_path


def test_python_text_is_the_standard_library_with_some_files_held_out():
    library = Path(sysconfig.get_paths()["stdlib"])
    found = {}
    for split in ("train", "validation"):
        source = Records("txjax_python_text", split, None, ["text", "path"])
        for record in source.read(0, len(source)):
            found[record["path"].decode()] = split
            if split == "validation":
                assert (library / record["path"].decode()).read_bytes() == record["text"]
    assert found["argparse.py"] and found["json/decoder.py"]
    assert not [path for path in found if {"test", "tests", "site-packages"} & set(Path(path).parts)]
    held_out = sum(split == "validation" for split in found.values()) / len(found)
    assert 0.02 < held_out < 0.06


def test_plays_of_shakespeare_are_those_of_tfds(tfds_dir):
    for split in ("train", "validation", "test"):
        (plays,) = Records("txjax_shakespeare", split, None, ["text"]).read(0, 1)
        (expected,) = Records("tiny_shakespeare", split, str(tfds_dir), ["text"]).read(0, 1)
        assert plays == expected


def test_reading_in_bulk_and_one_by_one_agree():
    source = Records("txjax_digits", "test", None, ["label", "image"])
    bulk = source.read(40, 50)
    for i in range(10):
        one = source[40 + i]
        assert one["label"] == bulk[i]["label"] and (one["image"] == bulk[i]["image"]).all()


def test_split_syntax_and_fingerprints(foreign):
    def digits(split, name="txjax_digits", data_dir=None):
        return Records(name, split, data_dir, ["label"])

    assert [len(digits(split)) for split in ("test", "test[:10%]", "test[-7:]", "test[:5]+train[:6]")] == [
        297,
        30,
        7,
        11,
    ]
    prints = {digits(split).fingerprint for split in ("test", "train", "test[:5]", "test[5:10]")}
    assert len(prints) == 4 and digits("test").fingerprint in prints
    with pytest.raises(UserError, match="a part of txjax_digits/1.0.0 with records in it"):
        digits("test[:0]")


def test_a_prepared_folder_needs_no_builder_code(foreign):
    assert set(records.check("squiggles", "train", str(foreign))) == {"image", "label"}
    assert len(Records("squiggles", "train", str(foreign), ["label"])) == 1500


def test_the_default_folder_is_that_of_tfds(foreign, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(foreign))
    assert len(Records("squiggles:1.0.0", "test", None, ["label"])) == 297


@pytest.mark.parametrize(
    ("name", "split", "message"),
    [
        ("squigles", "train", r"data.name: expected a TFDS data set, got 'squigles'; did you mean squiggles:1.0.0"),
        ("squiggles:2.0.0", "train", r"data.name: .* did you mean squiggles:1.0.0"),
        (
            "squiggles",
            "trian",
            r"data.split: expected splits of squiggles \(train, test\), got 'trian'; did you mean train",
        ),
        ("squiggles", "train[:x%]", r"data.split: expected TFDS's split syntax"),
        ("squiggles", "train[2:1]", r"data.split: expected a part of squiggles.* with records in it"),
        ("squiggles", "train[:3]+train[2:1]", r"data.split: expected a part of squiggles.* with records in it"),
        ("mnist", "train", r"mnist/3.0.1 to be prepared.*tfds build mnist --data_dir=.* --file_format=array_record"),
        ("c4/en", "train", r"pip install tensorflow-cpu; tfds build c4/en --data_dir="),
        ("txjax_digit", "train", r"did you mean txjax_digits"),
    ],
)
def test_missing_data_is_one_line(foreign, name, split, message):
    with pytest.raises(UserError, match=message) as error:
        records.check(name, split, str(foreign))
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize("folder", ["a\0b", "\ud800"])
def test_a_folder_that_no_file_system_has_is_a_user_error(folder):
    with pytest.raises(UserError, match="data.data_dir: expected a path, got"):
        records.check("squiggles", "train", folder)


def test_embedded_sets_need_no_preparation(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    assert set(records.check("txjax_digits", "test[:10%]", str(tmp_path))) == {"image", "label"}
    with pytest.raises(UserError, match="did you mean test"):
        records.check("txjax_digits", "tests", str(tmp_path))
    assert not list(tmp_path.iterdir())
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


def test_missing_scikit_learn_is_a_user_error(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"scikit-learn to be installed; pip install 'txjax\[vision\]'"):
        records.check("txjax_digits", "train", str(tmp_path))


def test_a_flipped_bit_names_the_file_and_the_record(foreign):
    shard = next(foreign.rglob("*test.array_record*"))
    content = bytearray(shard.read_bytes())
    content[5000] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CorruptData, match=rf"{shard.name}: record \d+ cannot be read"):
        source = Records("squiggles", "test", str(foreign), ["image", "label"])
        source.read(0, len(source))


@pytest.mark.parametrize("kept", [0, 100, 0.5, -1])
def test_a_truncated_shard_is_named(foreign, kept):
    shard = next(foreign.rglob("*test.array_record*"))
    content = shard.read_bytes()
    shard.write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    with pytest.raises((CorruptData, UserError), match=shard.name):
        records.check("squiggles", "test", str(foreign))
        source = Records("squiggles", "test", str(foreign), ["image", "label"])
        source.read(0, len(source))


def test_a_lost_file_and_another_format_are_noticed_before_the_start(foreign):
    info = next(foreign.rglob("dataset_info.json"))
    text = info.read_text()
    info.write_text(text.replace('"array_record"', '"tfrecord"'))
    with pytest.raises(UserError, match=r"squiggles/1.0.0 as array_record, got 'tfrecord'; delete .*squiggles/1.0.0"):
        records.check("squiggles", "test", str(foreign))
    info.write_text(text)
    next(foreign.rglob("*test.array_record*")).unlink()
    with pytest.raises(UserError, match="got 'no .*squiggles-test.array_record-00000-of-00001'"):
        records.check("squiggles", "test", str(foreign))
    records.check("squiggles", "train", str(foreign))


@pytest.mark.slow
def test_two_processes_prepare_at_once_without_tensorflow(tmp_path):
    code = """
import sys
from txjax.data.tfds.records import Records
print(len(Records("txjax_digits", "train", None, ["label"])))
assert "tensorflow" not in sys.modules
"""
    environment = os.environ | {"TXJAX_CACHE_DIR": str(tmp_path)}
    leftover = tmp_path / "tfds" / "txjax_digits" / "1.0.0.incompleteABC123"  # of a process that was killed
    leftover.mkdir(parents=True)
    pair = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    results = [process.communicate(timeout=120) for process in pair]
    assert [out for out, _ in results] == [b"1500\n"] * 2, results
    assert sorted(path.name for path in leftover.parent.iterdir()) == ["1.0.0"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["glue/mrpc", "glue/cola:2.0.0", "banking77", "multi30k/en_de", "bccd", "nlvr"])
def test_real_sets_are_read(tfds_dir, name):
    features = records.check(name, "train", str(tfds_dir))
    source = Records(name, "train", str(tfds_dir), list(features))
    assert set(source[len(source) - 1]) == set(features)


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_first_preparation_of_a_set_is_one_line_on_a_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    Records("txjax_digits", "test", None, ["label"])
    lines = terminal.getvalue().splitlines()
    assert lines[0] == "preparing the data set txjax_digits/1.0.0, once"
    assert "Unknown size" not in terminal.getvalue() and capsys.readouterr().out == ""
    terminal.truncate(0)
    Records("txjax_digits", "test", None, ["label"])
    assert terminal.getvalue().strip("\0") == ""
