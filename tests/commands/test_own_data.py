"""A run, or an import without one, is evaluated on other data by flags, which write nothing into its workdir."""

import json
import shutil

import jax
import numpy as np
import pytest
from commands.test_interop import tokenizer
from PIL import Image
from tensorflow_datasets import features

from txjax.__main__ import main
from txjax.data import NextTokenWindows, TokenizerFolder
from txjax.interop import huggingface
from txjax.models.text.decoder import gpt
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Learned

from helpers.arrays import variables
from helpers.data_sets import write_records


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The folder of a prepared set of texts."""
    lines = [{"body": f"line {i} of a text, and {i * i} more"} for i in range(12)]
    folder = tmp_path_factory.mktemp("tfds")
    return write_records(folder, "made_texts", {"body": features.Text()}, {"train": lines[:4], "test": lines})


def test_an_import_is_evaluated_on_data_of_the_user_s_own(texts, tmp_path, capsys):
    folder, workdir = tmp_path / "gpt2", tmp_path / "import"
    model = gpt(vocab=260, width=8, depth=1, heads=2, max_length=16)
    params = jax.tree.map(lambda x: 5 * x, variables(model, np.zeros((1, 4), np.int32)))
    huggingface.save(model, params, folder)
    tokenizer(folder / "tokenizer.json")
    assert main(["import", f"--from={folder}", f"--workdir={workdir}"]) == 0
    files = {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()}
    capsys.readouterr()

    flags = ["--config.data.name=made_texts", f"--config.data.data_dir={texts}", "--config.data.feature=body"]
    flags.append("--config.evals.valid.data.split=test")
    assert main(["evaluate", f"--workdir={workdir}", "--json", *flags]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["data"] == {"valid": {"name": "made_texts", "split": "test"}} and scores["files"] == []
    assert {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()} == files

    fields = dict(length=16, tokenizer=TokenizerFolder(path=str(folder)), feature="body")
    source = NextTokenWindows("made_texts", "test", texts, **fields).open()
    total = count = 0.0
    for number in range(len(source)):
        window = source.example(number, 0, np.random.default_rng(0))
        inputs = {key: window[key][None] for key in ("tokens", "segments", "positions")}
        logits = np.asarray(model.apply(params, **inputs).dense(), np.float64)[0]
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        total -= (logits[np.arange(16), window["targets"]] * window["weights"]).sum()
        count += window["weights"].sum()
    assert scores["eval/valid/loss"] == pytest.approx(total / count, rel=1e-5)


def test_mistakes_in_fields_of_a_run_are_those_of_train(straight_run, capsys):
    flags = ["--config.evals.valid.data.splitt=test", "--config.batchsize=3"]
    assert main(["evaluate", f"--workdir={straight_run}", *flags]) == 2
    first, second = capsys.readouterr().err.splitlines()
    for line, field, near in (
        (first, "config.evals.valid.data.splitt: expected a field of NextTokenWindows", "split"),
        (second, "config.batchsize: expected a field of Experiment", "batch_size"),
    ):
        assert line.startswith(f"txjax: {field}; did you mean {near}"), line


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The Hugging Face folder of a ViT of four classes, on squares of 8 pixels."""
    folder = tmp_path_factory.mktemp("vit")
    style = dict(patch=4, image_size=(8, 8), positions=Learned(max_length=5), head=Classes(4, FirstToken()))
    model = ViT(width=8, depth=1, heads=2, **style)
    params = jax.tree.map(lambda x: 5 * x, variables(model, np.zeros((1, 8, 8, 3), np.float32)))
    names = {"0": "fox, red fox", "1": "cat", "2": "emu", "3": "dog"}
    huggingface.save(model, params, folder, {"id2label": names, "label2id": {v: int(k) for k, v in names.items()}})
    reading = {
        "image_processor_type": "ViTImageProcessor",
        "size": {"shortest_edge": 10},
        "do_center_crop": True,
        "crop_size": {"height": 8, "width": 8},
        "resample": 3,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.2, 0.3, 0.4],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(reading))
    return folder, model, params


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of images of three of these classes, in another order."""
    folder = tmp_path_factory.mktemp("photos")
    for number, label in enumerate(("Cat", "dog", "fox")):
        for i in range(4):
            (folder / label).mkdir(exist_ok=True)
            pixels = np.random.default_rng(10 * number + i).integers(256, size=(20, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{i}.png")
    return folder


def test_an_imported_classifier_is_evaluated_on_a_folder_of_images(classifier, photos, tmp_path, capsys):
    folder, model, params = classifier
    assert main(["import", f"--from={folder}", f"--workdir={tmp_path}/import"]) == 0
    assert "for evaluate, export and --config.init_from" in capsys.readouterr().out
    workdir = f"--workdir={tmp_path}/import"
    assert main(["evaluate", workdir]) == 2
    assert "config.data.source: expected a folder of image files, got None; --config.data.source=FOLDER" in (
        capsys.readouterr().err
    )

    flags = [f"--config.data.source={photos}", "--config.evals.valid.data.split=train+validation+test"]
    assert main(["evaluate", workdir, "--json", *flags]) == 0
    scores = json.loads(capsys.readouterr().out)
    labels = {"Cat": 1, "dog": 3, "fox": 0}
    losses = []
    for file in sorted(photos.rglob("*.png")):
        picture = Image.open(file).resize((15, 10), Image.Resampling.BICUBIC).crop((3, 1, 11, 9))
        image = (np.asarray(picture, np.float32) / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
        logits = np.asarray(model.apply(params, image[None].astype(np.float32)), np.float64)[0]
        losses.append(np.log(np.exp(logits).sum()) - logits[labels[file.parent.name]])
    assert scores["eval/valid/loss"] == pytest.approx(np.mean(losses), rel=1e-4)


def test_classes_that_an_imported_classifier_has_not_are_refused_by_name(classifier, photos, tmp_path, capsys):
    main(["import", f"--from={classifier[0]}", f"--workdir={tmp_path}/import"])
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "photos" / "dog").rename(tmp_path / "photos" / "doge")
    capsys.readouterr()
    assert main(["evaluate", f"--workdir={tmp_path}/import", f"--config.data.source={tmp_path}/photos"]) == 2
    line = capsys.readouterr().err
    assert "config.data.label.names: expected one for each class of the set, such as 'fox, red fox', got" in line
    assert (
        "none for doge" in line and "did you mean dog" in line and "label='label' takes the set's own numbers" in line
    )


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (None, "--from: expected a folder with preprocessor_config.json, which says how images are read"),
        ({"do_resize": False}, "preprocessor_config.json: do_resize: expected True, got False"),
        ({"size": {"height": 8, "width": 9}}, "preprocessor_config.json: size: expected the side of a square"),
        ({"size": [8, 8]}, "preprocessor_config.json: size: expected the side of a square, got [8, 8]"),
        ({"size": 8, "image_mean": "x"}, "preprocessor_config.json: image_mean: expected a list of numbers, got 'x'"),
        ({"size": 8, "crop_pct": 0}, "preprocessor_config.json: crop_pct: expected a share above 0, at most 1, got 0"),
        ({"size": 8, "include_top": True}, "preprocessor_config.json: include_top: expected False, got True"),
        ({"size": {"shortest_edge": 8}}, "size: expected a square, or a shortest_edge with do_center_crop"),
    ],
)
def test_images_that_are_read_in_another_way_leave_a_model_without_data(classifier, tmp_path, capsys, reading, message):
    folder = shutil.copytree(classifier[0], tmp_path / "vit")
    (folder / "preprocessor_config.json").unlink()
    if reading is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(reading))
    assert main(["import", f"--from={folder}", f"--workdir={tmp_path}/import"]) == 0
    printed = capsys.readouterr().out
    assert "not for evaluate and generate: " in printed and message in printed
