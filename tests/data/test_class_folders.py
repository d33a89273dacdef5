"""A folder of images with a folder for each class is a source, whose path is all that a run needs."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from txjax.__main__ import main
from txjax.data import ImageFolder, Images
from txjax.data.sources import folder_walks
from txjax.types import UserError

ROOT = Path(__file__).parents[2]
SMALL = ("--config.model.width=8", "--config.model.depth=1", "--config.batch_size=8", "--config.num_steps=1")
SMALL += ("--config.optimizer.schedule.warmup_steps=0",)


def write(path: Path, size: tuple[int, int] = (8, 8), seed: int = 0) -> None:
    """A PNG of random colours, of `size` rows and columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(256, size=(*size, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path):
    for label in ("emu", "cat", "dog"):
        for number in range(10):
            write(tmp_path / "photos" / label / f"{number}.png", seed=100 * len(label) + number + ord(label[0]))
    return tmp_path / "photos"


def train(config: str, photos: Path, workdir: Path, *flags: str) -> int:
    data = f"--config.data.source={photos}"
    return main(["train", f"--config={ROOT / 'configs/vision' / config}", f"--workdir={workdir}", data, *flags])


@pytest.mark.slow
def test_path_and_shape_are_all_that_a_run_of_the_digits_config_needs(photos, tmp_path, capsys):
    assert train("vit_digits.py", photos, tmp_path / "run", "--config.data.shape=(8, 8, 3)", *SMALL) == 0
    written = json.loads((tmp_path / "run" / "config.json").read_text())
    assert written["data"]["classes"] == written["model"]["head"]["classes"] == 3
    evaluated = written["evals"]["test"]["data"]
    assert evaluated["source"] == str(photos)
    assert (evaluated["shape"], evaluated["mean"], evaluated["classes"]) == ([8, 8, 3], [0.3], 3)
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert np.isfinite(row["eval/test/loss"])


def test_the_path_is_all_that_images_of_other_sizes_need_where_the_config_resizes(photos, tmp_path, capsys):
    write(photos / "cat" / "wide.png", (30, 50))
    small = ("--config.model.width=32", "--config.model.heads=1", "--config.model.depth=1", "--config.batch_size=2")
    assert train("vit_imagenet.py", photos, tmp_path / "run", *small, "--dry_run") == 0
    assert "examples: train " in capsys.readouterr().out


def test_a_table_is_a_list_by_its_name_or_where_it_is_named(photos, caplog):
    lines = [f"cat/{n}.png,red\n" for n in range(10)]
    (photos / "colours.csv").write_text("path,colour\n" + "".join(lines))
    source = ImageFolder(str(photos))
    assert "label" in source.features() and len(source.open("train+validation+test", ["file"])) == 30
    assert caplog.messages == [
        f"colours.csv in {photos} is no list by its name, and is not read; data.source.listings names lists"
    ]
    listed = ImageFolder(str(photos), listings=("colours.csv",))
    assert sorted(listed.features()) == ["colour", "file", "path"]
    assert len(listed.open("train+validation+test", ["path"])) == 10
    with pytest.raises(UserError, match="data.source.listings: expected files in .*, got 'colour.csv'; did you mean"):
        ImageFolder(str(photos), listings=("colour.csv",)).features()
    write(photos / "alone.png")
    with pytest.raises(UserError, match=r"or metadata.jsonl, got 'alone.png in .*listings=\('colours.csv',\) reads"):
        source.features()


def test_a_folder_is_walked_once_as_long_as_no_file_comes_or_goes(photos, monkeypatch):
    walked = []
    walk = folder_walks._walk
    monkeypatch.setattr(folder_walks, "_walk", lambda folder: walked.append(folder) or walk(folder))
    data = Images(source=str(photos), shape=(8, 8, 3))
    data.check()
    assert len(data.open()) > 20 and walked == [str(photos)]
    write(photos / "cat" / "new.png", seed=77)
    assert len(ImageFolder(str(photos)).open("train+validation+test", ["file"])) == 31
    assert walked == [str(photos)] * 2


def test_images_of_other_sizes_are_refused_before_training(photos, tmp_path, capsys):
    train_split = ImageFolder(str(photos)).open("train", ["file"])
    last = train_split[len(train_split) - 1]["file"].decode()
    write(photos / last, (8, 9))
    assert train("vit_digits.py", photos, tmp_path / "run", "--config.data.shape=(8, 8, 3)", *SMALL) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("txjax: config.data.shape: expected (8, 9, 3) as of "), line
    assert f"{last}, got (8, 8, 3); set shape, or resize by transforms=" in line, line
    assert not (tmp_path / "run").exists()


def test_a_shape_that_is_wrong_everywhere_is_one_mistake(photos, tmp_path, capsys):
    assert train("vit_digits.py", photos, tmp_path / "run", *SMALL) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("txjax: config.data.shape: expected (8, 8, 3) as of "), line


def test_folders_of_splits_are_splits(tmp_path):
    write(tmp_path / "train" / "b" / "1.png", seed=1)
    write(tmp_path / "train" / "a" / "2.png", seed=2)
    write(tmp_path / "val" / "b" / "3.png", seed=3)
    fields = dict(source=str(tmp_path), shape=(8, 8, 3))
    data = Images(split="train", **fields)
    assert data.class_names() == ("a", "b")
    source = data.open()
    assert [int(source.example(i, 0, None)["label"]) for i in range(len(source))] == [0, 1]
    pixels = np.random.default_rng(2).integers(256, size=(8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(np.rint(source.example(0, 0, None)["image"] * 127.5 + 127.5), pixels)
    with pytest.raises(UserError, match=r"data.split: expected splits of .* \(train, validation\).*got 'test'"):
        Images(split="test", **fields).check()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["1.png"], r"expected files in folders of their classes, or metadata.jsonl, got '1.png in "),
        (
            ["a/1.png", "a/b/2.png"],
            r"expected files in CLASS/FILE, or all in SPLIT/CLASS/FILE, got 'a/1.png and a/b/2.p",
        ),
        (["a/notes.txt", ".cache/1.png"], r"expected a folder with files of .png, .jpg"),
        ([], "expected a folder of image files"),
    ],
)
def test_folders_that_are_no_source(tmp_path, files, message):
    for file in files:
        write((tmp_path / file).with_suffix(".png"))
        (tmp_path / file).with_suffix(".png").rename(tmp_path / file)
    with pytest.raises(UserError, match=f"data.source: {message}"):
        Images(source=ImageFolder(str(tmp_path) if files else "")).check()
