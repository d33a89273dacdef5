"""A file that changes is noticed: while a run reads it, by the next row, and before a resume, by the file's name."""

import dataclasses
import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from txjax.data import (
    AudioFolder,
    ConversationFiles,
    ImageFolder,
    JSONArrays,
    JSONLines,
    ParquetFiles,
    Tables,
    TextFiles,
    WebDataset,
    eval_batches,
    train_batches,
)
from txjax.data.file_changes import describe_changes, file_digests
from txjax.data.sources import file_source
from txjax.data.sources.media_folders import MediaFolder
from txjax.data.tfds.records import CorruptData
from txjax.io import digest
from txjax.train.open_data import open_data
from txjax.train.run.changed_files import name_changed_files
from txjax.train.run.workdir import write_config, write_manifest
from txjax.train.trainer import Trainer
from txjax.types import UserError

from helpers import runs
from helpers.file_kinds import WRITERS, compress, data_of, kinds, rows, source_of

pytestmark = pytest.mark.claim(
    "Data", "changed bytes, files that come, go, grow or are renamed: noticed in one line that names the file"
)

CLASSIFIER = Path(__file__).parents[2] / "configs" / "text" / "classifier.py"
ENDINGS = {ImageFolder: ".png", AudioFolder: ".wav"}
PACKED = [JSONLines, Tables, TextFiles, WebDataset]
every_kind = pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)


def path_of(place: str) -> Path:
    return Path(place.split(":")[0])


def change_a_byte(path: Path, kind: type) -> None:
    """Size and time of change stay as they are."""
    stat = path.stat()
    content = path.read_bytes()
    word = {ImageFolder: b"IDAT", AudioFolder: b"data"}.get(kind, b"film")
    assert word in content
    path.write_bytes(content.replace(word, word.swapcase()))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@every_kind
def test_a_changed_byte_is_noticed_where_it_is(kind, tmp_path, monkeypatch):
    """Even where size and time of change are as before; of Parquet, in the copy that is read."""
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))
    source = source_of(kind, tmp_path, rows())
    records = source.open("train", ["text"])
    fingerprint = records.fingerprint
    path = path_of(records.place(0))
    copies = list((tmp_path / "cache" / "arrow").glob("*/rows.arrow"))
    assert len(copies) == (kind is ParquetFiles)
    change_a_byte(copies[0] if copies else path, kind)
    with pytest.raises(CorruptData, match=rf"{path.name}.*: its bytes have changed since it was indexed"):
        [records[index] for index in range(len(records))]
    if not copies:
        os.utime(path, ns=(0, 0))  # a run that begins now has other data
        assert source.open("train", ["text"]).fingerprint != fingerprint


@every_kind
def test_any_flipped_bit_is_noticed_or_changes_no_row(kind, tmp_path, monkeypatch):
    """Wherever it is, in lines, headers, offsets or padding; size and time of change stay as they are."""
    monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))
    content = source_of(kind, tmp_path, rows(20)).table().rows
    before = [repr(content.row(number)) for number in range(20)]
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and "cache" not in path.parts]
    if kind is ParquetFiles:
        files = list((tmp_path / "cache" / "arrow").glob("*/rows.arrow"))
    rng = np.random.default_rng(0)
    noticed = 0
    for path in rng.choice(files, 60).tolist():
        stat = path.stat()
        place, bit = int(rng.integers(stat.st_size)), int(rng.integers(8))
        for _ in range(2):  # it is there, and as it was
            with path.open("r+b") as file:
                file.seek(place)
                value = file.read(1)[0] ^ 1 << bit
                file.seek(place)
                file.write(bytes([value]))
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            try:
                assert [repr(content.row(number)) for number in range(20)] == before
            except CorruptData as error:
                noticed += 1
                assert "have changed since it was indexed" in str(error)
    assert noticed <= 60 and (noticed or kind is WebDataset)  # most of a tar file of small members is padding


@every_kind
def test_a_moved_and_touched_file_has_the_same_rows_splits_and_fingerprint(kind, tmp_path, monkeypatch):
    """As on another machine, whose cache has no index of it."""
    (tmp_path / "here").mkdir()
    before = source_of(kind, tmp_path / "here", rows())
    shutil.copytree(tmp_path / "here", tmp_path / "there")  # with times of their own
    for path in (tmp_path / "there").rglob("*"):
        os.utime(path, ns=(0, 0))
    after = dataclasses.replace(before, paths=str(before.paths).replace("/here", "/there"))
    for split in ("train", "validation", "test"):
        here = before.open(split, ["text"])
        monkeypatch.setenv("TXJAX_CACHE_DIR", str(tmp_path / "cache"))
        there = after.open(split, ["text"])
        assert there.fingerprint == here.fingerprint
        assert there.read(0, len(there)) == here.read(0, len(here))


def grow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


CHANGES = {
    "grown": (grow, r"has changed since the run began \(\d+ bytes, now \d+\); start again to index it anew"),
    "removed": (Path.unlink, "was there when the run began: No such file or directory"),
    "renamed": (lambda path: path.rename(f"{path}.old"), "was there when the run began: No such file or directory"),
    "replaced": (lambda path: os.utime(path, ns=(0, 0)), "has changed since the run began .another time of change."),
}


@every_kind
@pytest.mark.parametrize(("change", "message"), CHANGES.values(), ids=CHANGES)
def test_a_file_that_changes_while_it_is_read(kind, change, message, tmp_path):
    records = source_of(kind, tmp_path, rows()).open("train", ["text"])
    path = path_of(records.place(0))
    assert records[0]["text"]
    change(path)
    with pytest.raises(CorruptData, match=f"^{path} {message}") as error:
        records[0]
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [ImageFolder, AudioFolder], ids=lambda kind: kind.__name__)
def test_a_list_that_changes_while_its_files_are_read(kind, tmp_path):
    records = source_of(kind, tmp_path, rows()).open("train", ["text"])
    grow(tmp_path / "rows" / "metadata.jsonl")
    with pytest.raises(CorruptData, match=r"rows/metadata.jsonl has changed since the run began \(\d+ bytes, now"):
        records[0]


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.__name__)
def test_a_compressed_file_has_its_own_name_in_messages(kind, tmp_path):
    source_of(kind, tmp_path, rows())
    packed = compress(next(tmp_path.iterdir()))
    records = kind(str(packed), **WRITERS[kind][2]).open("train", ["text"])
    assert path_of(records.place(0)) == packed
    grow(packed)
    with pytest.raises(CorruptData, match=f"^{packed} has changed since the run began"):
        records[0]


@every_kind
def test_an_added_file_changes_no_row_of_a_run_that_is_on(kind, tmp_path):
    """What opens the files after that has other data, or is refused."""
    source = source_of(kind, tmp_path, rows())
    records = source.open("train", ["text"])
    before = records.read(0, len(records))
    if issubclass(kind, MediaFolder):
        path = path_of(records.place(0))
        shutil.copy(path, path.with_name(f"new{path.suffix}"))
        with pytest.raises(UserError, match="expected a line of metadata.jsonl for each file, .*new"):
            source.open("train", ["text"])
    else:
        more = source_of(kind, tmp_path, rows(5, 60), name="more")
        assert len(more.open("train+validation+test", ["text"])) == 65
        assert more.open("train", ["text"]).fingerprint != records.fingerprint
    assert records.read(0, len(records)) == before


@every_kind
def test_what_happened_to_files_is_known_by_their_names(kind, tmp_path):
    data = data_of(source_of(kind, tmp_path, rows()))
    before = file_digests(data)
    assert describe_changes(before, before) == ""
    if issubclass(kind, MediaFolder):
        change_a_byte(tmp_path / "rows" / f"0{ENDINGS[kind]}", kind)
        os.utime(tmp_path / "rows" / f"0{ENDINGS[kind]}", ns=(0, 0))
        assert describe_changes(before, file_digests(data)) == f"{tmp_path}/rows/0{ENDINGS[kind]} has other rows"
        return
    path = Path(next(iter(before)))
    path.rename(tmp_path / f"films{path.suffix}")
    assert describe_changes(before, file_digests(data)) == f"{path} is {tmp_path}/films{path.suffix} now"
    source_of(kind, tmp_path, rows(5, 60), name="more")
    shutil.copy(tmp_path / f"films{path.suffix}", path)
    (tmp_path / f"films{path.suffix}").unlink()
    assert describe_changes(before, file_digests(data)) == f"{tmp_path}/more{path.suffix} was added"
    source_of(kind, tmp_path, rows(64))
    after = describe_changes(before, file_digests(data))
    assert after == f"{tmp_path}/more{path.suffix} was added, {path} had 60 rows and has 64"


@pytest.mark.parametrize("kind", [ImageFolder, AudioFolder], ids=lambda kind: kind.__name__)
def test_batches_end_at_a_file_that_changed(kind, tmp_path):
    source = source_of(kind, tmp_path, rows())
    batches = train_batches(data_of(source).open(), batch_size=8, seed=0, threads=1, prefetch=1)
    next(batches)
    for path in (tmp_path / "rows").glob(f"*{ENDINGS[kind]}"):
        grow(path)
    message = f"^[^\n]*{ENDINGS[kind]}( has changed since the run began|: its bytes have changed)"
    with pytest.raises((CorruptData, UserError), match=message):
        for _ in range(3):
            next(batches)


@pytest.mark.parametrize("change", [grow, Path.unlink, change_a_byte], ids=["grown", "removed", "a byte"])
@pytest.mark.parametrize("kind", [ImageFolder, AudioFolder], ids=lambda kind: kind.__name__)
def test_a_file_that_changed_is_not_one_to_leave_out(kind, change, tmp_path):
    """Neither does the message advise it, nor does a data set do so that leaves unusable files out."""
    source = source_of(kind, tmp_path, rows(), held_out=0.0)
    skip = {"corrupt": "skip"} if kind is ImageFolder else {"unusable": "skip"}
    for data in (data_of(source), dataclasses.replace(data_of(source), **skip)):
        examples = data.open()
        path = tmp_path / "rows" / f"1{ENDINGS[kind]}"  # not the first one, which was read
        content, stat = path.read_bytes(), path.stat()
        change(path, kind) if change is change_a_byte else change(path)
        with pytest.raises(CorruptData, match=f"^{path}( was there| has changed|: its bytes have changed)"):
            list(eval_batches(examples, batch_size=60))
        path.write_bytes(content)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_batches_of_texts_need_no_file_once_their_tokens_are_cached(tmp_path):
    source = source_of(JSONLines, tmp_path, rows())
    first, second = (train_batches(data_of(source).open(), batch_size=8, seed=0, threads=1) for _ in range(2))
    grow(tmp_path / "rows.jsonl")
    for a, b in zip(itertools.islice(first, 8), itertools.islice(second, 8), strict=True):
        assert a["tokens"].tobytes() == b["tokens"].tobytes()


BROKEN = {
    ImageFolder: ("rows/7.png", lambda content: content[:-30]),
    AudioFolder: ("rows/7.wav", lambda content: content[:-30]),
    ConversationFiles: ("photos/7.png", lambda content: content[:-30]),
}


@every_kind
def test_a_row_that_is_broken_since_the_run_began_is_a_file_that_changed(kind, tmp_path, monkeypatch):
    """Before a resume says that the row could be left out."""
    data = data_of(source_of(kind, tmp_path, rows(12), held_out=0.0))
    run = tmp_path / "run"
    (run / "checkpoints" / "1").mkdir(parents=True)
    write_config(run, data)
    write_manifest(run, {}, {}, files=file_digests(data))
    name, change = BROKEN.get(kind, (f"rows{WRITERS[kind][1]}", lambda content: content.replace(b" 7 w", b" \xff w")))
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))

    def refusal() -> str:
        monkeypatch.setattr(file_source, "_opened", {})  # as in another process
        with pytest.raises((CorruptData, UserError)) as error, name_changed_files(run):
            open_data("config.data", data)
        assert "\n" not in str(error.value) and name in str(error.value)
        return str(error.value)

    assert "the files as when" not in refusal()  # a run without a step takes any data
    digest.commit(run / "checkpoints" / "1")
    message = refusal()
    assert message.startswith(f"the data: expected the files as when {run} began, got ")
    assert message.endswith("; take another --workdir") and '"skip"' not in message
    if kind not in (JSONArrays, ParquetFiles):  # which can't be indexed any more
        changed = "rows.json" if kind is ConversationFiles else name
        assert f"'{tmp_path}/{changed} has other rows'" in message


def add_a_file(folder: Path) -> None:
    source_of(JSONLines, folder, rows(7, 200), name="c")


def replace_a_file(folder: Path) -> None:
    os.utime(folder / "b.jsonl", ns=(0, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add_a_file, "c.jsonl was added"),
        (lambda folder: grow(folder / "b.jsonl"), "b.jsonl has changed"),
        (replace_a_file, "b.jsonl has changed"),
        (lambda folder: (folder / "b.jsonl").rename(folder / "d.jsonl"), "b.jsonl is {}/d.jsonl now"),
        (lambda folder: (folder / "b.jsonl").unlink(), "b.jsonl is gone"),
        (lambda folder: [path.unlink() for path in folder.glob("*.jsonl")], "expected a file, or a pattern"),
        (lambda folder: None, ""),
    ],
    ids=["added", "grown", "replaced", "renamed", "removed", "all removed", "nothing"],
)
def test_a_file_that_changes_while_a_run_is_on_is_in_its_last_message(change, message, tmp_path, monkeypatch):
    """Also where the run has read all that it needs: its tokens are in the cache."""
    config = tmp_path / "lines.py"
    config.write_text(runs.CONFIG)
    source_of(JSONLines, tmp_path, rows(100), name="a")
    source = source_of(JSONLines, tmp_path, rows(100, 100), name="b")
    flags = [f"--config.data.source={source.paths}", "--config.evals={}", "--config.checkpoint.best=None"]
    finish = Trainer._finish
    monkeypatch.setattr(Trainer, "_finish", lambda *words: (change(tmp_path), finish(*words))[1])
    code, _, err = runs.train_here(config, tmp_path / "run", *flags, "--config.num_steps=2")
    assert code == 0, err
    messages = [line for line in err.splitlines() if "the data has changed while the run was on: " in line]
    assert len(messages) == bool(message) and message.format(tmp_path) in "".join(messages), err


def test_a_resume_with_a_row_that_is_broken_or_has_another_class_is_refused_by_the_file(tmp_path):
    flags = [f"--config.data.source={tmp_path}/rows.csv", "--config.data.text=text", "--config.data.label=label"]
    flags += [f"--config.model.{name}=1" for name in ("width", "depth", "heads")] + ["--config.num_steps=4"]
    flags += ["--config.optimizer.schedule.warmup_steps=0", "--config.batch_size=4"]
    flags += ["--config.evals={}", "--config.checkpoint.best=None"]
    source_of(Tables, tmp_path, rows())
    code, _, err = runs.train_here(CLASSIFIER, tmp_path / "run", *flags, "--until=2")
    assert code == 0, err
    content = (tmp_path / "rows.csv").read_text()
    for old, new, reason in (
        (",good,0.25", ",good", "rows.csv: line 3: expected 3 values, as in the first row, got 2"),
        (",good,0.25", ",best,0.25", "data.classes: 3 -> 4"),
    ):
        (tmp_path / "rows.csv").write_text(content.replace(old, new))
        code, _, err = runs.train_here(CLASSIFIER, tmp_path / "run", *flags)
        assert code == 2 and len(err.strip().splitlines()) == 1, err
        assert f"got '{tmp_path}/rows.csv has other rows'; " in err and reason in err, err


def test_a_resume_on_other_files_is_refused_by_name(tmp_path):
    source_of(JSONLines, tmp_path, rows(100), name="a")
    source = source_of(JSONLines, tmp_path, rows(100, 100), name="b")
    config = tmp_path / "lines.py"
    config.write_text(runs.CONFIG)
    flags = [f"--config.data.source={source.paths}", "--config.evals={}", "--config.checkpoint.best=None"]
    code, _, err = runs.train_here(config, tmp_path / "run", *flags, "--until=2")
    assert code == 0, err
    added = source_of(JSONLines, tmp_path, rows(7, 200), name="c") and tmp_path / "c.jsonl"
    code, _, err = runs.train_here(config, tmp_path / "run", *flags, "--until=4")
    assert code == 2 and len(err.strip().splitlines()) == 1, err
    assert "the data of train: expected fingerprint" in err and f"{added} was added; take another --workdir" in err
    added.unlink()
    (tmp_path / "b.jsonl").rename(tmp_path / "d.jsonl")  # the same rows in the same order
    os.utime(tmp_path / "a.jsonl", ns=(0, 0))
    code, _, err = runs.train_here(config, tmp_path / "run", *flags, "--until=4")
    assert code == 0, err
    moved = tmp_path / "moved"  # the folder is another one
    moved.mkdir()
    for name in ("a.jsonl", "d.jsonl"):
        (tmp_path / name).rename(moved / name)
    flags[0] = f"--config.data.source={moved / Path(source.paths).name}"
    code, _, err = runs.train_here(config, tmp_path / "run", *flags, "--until=6", "--allow_config_change")
    assert code == 0, err
