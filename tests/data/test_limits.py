"""Ids outside a model's table are errors that name data set and record, not a NaN or a weight of zero."""

import dataclasses
import json
import shutil
from functools import partial

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.data import (
    Bytes,
    Images,
    LabelledText,
    Limits,
    NextTokenWindows,
    Subset,
    Utterances,
    eval_batches,
    train_batches,
)
from txjax.data.tfds import records as tfds_records
from txjax.models.audio.conformer import Conformer
from txjax.models.model import Model
from txjax.models.text.bert import Bert
from txjax.models.text.encoder_decoder import EncoderDecoder
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, TokenClasses
from txjax.nn.audio.differences import Differences
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.mel_filters import SlaneyFilters
from txjax.objectives import Classification, MaskedPatch, NextToken, TokenClassification, check_model_data
from txjax.objectives.data_checks import check_classes, check_rate
from txjax.types import UserError

from helpers import runs, sentence_set
from helpers.wrong_token_ids import WRONG, WrongIds

WRONG_CONFIG = runs.CONFIG.replace(" data=NextTokenWindows(", " data=WrongIds(").replace(
    "import NextTokenWindows", "import NextTokenWindows\nfrom helpers.wrong_token_ids import WrongIds"
)


def test_train_names_the_example_of_an_invalid_token(tmp_path, capsys):
    config = tmp_path / "wrong.py"
    config.write_text(WRONG_CONFIG)
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}"]) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    expected = "config.data: expected tokens from 0 to 255 (config.model.vocab is 256), got '256 in example 5'"
    assert err == f"txjax: {expected}"


def test_an_evaluation_names_its_data(straight_run, tmp_path, capsys):
    workdir = tmp_path / "run"
    shutil.copytree(straight_run, workdir)
    written = json.loads((workdir / "config.json").read_text())
    data = written["evals"]["valid"]["data"]
    data |= {"class": "helpers.wrong_token_ids.WrongIds", "key": "targets", "number": -1, "weight": 1.0}
    (workdir / "config.json").write_text(json.dumps(written))
    assert main(["evaluate", f"--workdir={workdir}", "--trust=helpers"]) == 2
    assert "config.evals.valid.data: expected targets from 0 to 255" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "number", "weight", "fine"),
    [
        ("tokens", 255, 1.0, True),
        ("tokens", 256, 0.0, False),
        ("tokens", -1, 0.0, False),
        ("targets", 256, 0.0, False),  # NaN * 0 is NaN
        ("targets", -1, 1.0, False),
        ("targets", -100, 0.0, True),
        ("targets", -257, 0.0, False),
    ],
)
def test_which_ids_are_user_errors(key, number, weight, fine):
    source = WrongIds("txjax_python_text", length=16, key=key, number=number, weight=weight).open()
    limits = Limits("config.data", {"tokens": ("vocab", 256), "targets": ("vocab", 256), "label": ("head.classes", 10)})
    message = rf"config.data: expected {key} from 0 to 255 .*'{number} in example {WRONG}'"
    for read in (partial(train_batches, seed=0), eval_batches):
        batches = read(source, batch_size=8, limits=limits)
        seen = (next(batches)["id"] for _ in range(3))
        if fine:
            assert sorted(i for ids in seen for i in ids) == list(range(24))
        else:
            with pytest.raises(UserError, match=message):
                list(seen)
        batches.close()


@pytest.mark.parametrize(("label", "weight", "fine"), [(-1, 0, True), (9, 1, True), (-1, 1, False), (10, 0, False)])
def test_a_label_of_no_class_has_no_weight(label, weight, fine):
    batch = {"id": np.arange(2), "label": np.array([3, label], np.int32), "weights": np.array([1, weight], np.float32)}
    limits = Limits("config.data", {"label": ("head.classes", 10)})
    if fine:
        limits.check(batch)
    else:
        with pytest.raises(
            UserError, match=rf"label from 0 to 9 \(config.model.head.classes is 10\), got '{label} in example 1'"
        ):
            limits.check(batch)


def test_a_model_with_fewer_classes_than_the_data(root, tmp_path, capsys):
    flags = [f"--config={root / 'configs/vision/vit_digits.py'}", f"--workdir={tmp_path / 'run'}"]
    assert main(["train", *flags, "--config.model.head.classes=5"]) == 2
    assert (
        "config.model.head.classes: expected at least 10, the classes of config.data, got 5" in capsys.readouterr().err
    )


def test_limits_are_those_of_the_model():
    sizes = {"width": 8, "depth": 1, "heads": 1, "patch": 4}
    model, seven = ViT(head=Classes(7, FirstToken()), **sizes), ("head.classes", 7)
    assert Limits.of("data", model, Classification().required_keys).ends == {"label": seven, "other_label": seven}
    assert Limits.of("data", model, MaskedPatch.required_keys).ends == {}
    tagger = Bert(head=TokenClasses(7), vocab=11, width=8, depth=1, heads=1)
    ends = Limits.of("data", tagger, TokenClassification().required_keys).ends
    assert ends == dict.fromkeys(("tokens", "source_tokens", "choice_tokens"), ("vocab", 11)) | {"targets": seven}
    assert Limits.of("data", ViT(**sizes), Classification().required_keys).ends == {}


class Wrapped(Model, kw_only=True):
    """A model around others, whose sizes are theirs.

    Attributes:
      encoder, other: the models.
    """

    encoder: ViT
    other: ViT | None = None


def test_limits_are_those_of_the_models_inside_a_model():
    sizes = {"width": 8, "depth": 1, "heads": 1, "patch": 4}
    five, seven = (ViT(head=Classes(classes, FirstToken()), **sizes) for classes in (5, 7))
    ends = Limits.of("data", Wrapped(encoder=seven), Classification().required_keys).ends
    assert ends == dict.fromkeys(("label", "other_label"), ("encoder.head.classes", 7))
    ends = Limits.of("data", Wrapped(encoder=five, other=seven), ["transcript"]).ends
    assert ends == {"transcript": ("other.head.classes", 7)}
    batch = {"id": np.arange(2), "transcript": np.array([[3, 6], [7, 0]], np.int32)}
    with pytest.raises(
        UserError, match=r"transcript from 0 to 6 \(config.model.other.head.classes is 7\), got '7 in ex"
    ):
        Limits("config.data", ends).check(batch)


def test_data_with_more_symbols_or_classes_than_a_head_inside_the_model():
    inner = Wrapped(encoder=ViT(head=Classes(20, FirstToken()), width=8, depth=1, heads=1, patch=4))
    words = Utterances(name="fsdd")
    with pytest.raises(UserError, match=r"config.model.encoder.head.classes: expected at least 28, .*, got 20"):
        check_model_data(inner, words)
    with pytest.raises(UserError, match=r"config.model.encoder.head.classes: expected at least 21, .*, got 20"):
        check_classes(inner, Images(name="txjax_digits", classes=21))


@pytest.mark.parametrize("front_end", [LogMel(rate=8000, filters=SlaneyFilters(high=4000.0)), Differences()])
def test_a_front_end_of_another_rate_than_the_data(front_end):
    model = Wrapped(encoder=Conformer(width=8, depth=1, heads=2, front_end=front_end))
    rate = front_end.rate
    check_rate(model, Utterances(rate=rate))
    message = rf"config.data.rate: expected {rate}, that of config.model.encoder.front_end.rate, got 11025"
    with pytest.raises(UserError, match=message):
        check_rate(model, Utterances(rate=11025))


@pytest.fixture(scope="module")
def few_classes(tmp_path_factory):
    """The digits, prepared with metadata that say five classes."""
    tfds_records.Records("txjax_digits", "test", None, ["label"])
    folder = tmp_path_factory.mktemp("tfds")
    new = folder / "squiggles" / "1.0.0"
    shutil.copytree(tfds_records.folder("txjax_digits", None) / "txjax_digits" / "1.0.0", new)
    for path in list(new.iterdir()):
        path.rename(path.with_name(path.name.replace("txjax_digits", "squiggles")))
    info = json.loads((new / "dataset_info.json").read_text())
    (new / "dataset_info.json").write_text(json.dumps(info | {"name": "squiggles"}))
    features = (new / "features.json").read_text()
    (new / "features.json").write_text(features.replace('"numClasses": "10"', '"numClasses": "5"'))
    for names in new.glob("*.labels.txt"):
        names.write_text("\n".join("01234"))
    return str(folder)


@pytest.mark.parametrize("subset", [None, Subset(per_class=20)])
def test_labels_of_images(few_classes, subset):
    images = Images("squiggles", "train", few_classes, classes=5, subset=subset)
    place = r"[5-9] in .*squiggles-train.array_record-00000-of-00001: record \d+'"
    with pytest.raises(UserError, match=rf"expected labels from 0 to 4 in squiggles/1.0.0, or -1.*{place}"):
        source = images.open()
        for index in range(len(source)):
            source.example(index, 0, None)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"unlabelled": None},
            r"labels from 0 to 2 in made_sentences/.*'-1 in .*made_sentences-train.*: record 6'",
        ),
        ({"unlabelled": 1.0}, r"labels from 0 to 2 .*'-1 in .*: record 6'"),
    ],
)
def test_labels_of_sentences(tmp_path_factory, settings, message):
    folder = sentence_set.prepare(tmp_path_factory.getbasetemp() / "made_sentences")
    text = LabelledText("made_sentences", "train", folder, text=("first",), classes=3, length=30)
    assert len(text.open()) == 60
    with pytest.raises(UserError, match=rf"data.label: expected {message}"):
        dataclasses.replace(text, **settings).open()


@dataclasses.dataclass
class OneMore(Bytes):
    """A tokenizer that gives an id outside its vocabulary."""

    def encode(self, text):
        ids = super().encode(text).astype(np.int32)
        return np.where(ids == ord("~"), 256, ids)


def test_tokenizer_ids_outside_its_vocabulary():
    """In the cache they would become another token: 256 as a byte is 0."""
    windows = NextTokenWindows("txjax_python_text", "validation", length=16, tokenizer=OneMore())
    with pytest.raises(UserError, match=r"data.tokenizer: .* 0 to 255, .*'256 in .*txjax_python_text-.*: record \d+'"):
        windows.open()


def test_labels_of_a_batch_without_weights():
    batch = {"label": np.array([2, -1], np.int32), "id": np.array([7, 8], np.int32)}
    with pytest.raises(UserError, match="config.data: expected label from 0 to 2 .* got '-1 in example 8'"):
        Limits("config.data", {"label": ("head.classes", 3)}).check(batch)


def test_a_source_has_the_limit_of_its_own_vocabulary():
    model = EncoderDecoder(vocab=10, source_vocab=20, width=8, depth=1, heads=1)
    ends = Limits.of("config.data", model, NextToken().required_keys).ends
    assert ends["source_tokens"] == ("source_vocab", 20) and ends["tokens"] == ends["targets"] == ("vocab", 10)
    ends = Limits.of("config.data", model.clone(source_vocab=None), NextToken().required_keys).ends
    assert ends["source_tokens"] == ("vocab", 10)
