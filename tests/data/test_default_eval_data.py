"""Evaluations follow the training data unless they name another, in every config that ships."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from txjax import config
from txjax.__main__ import main
from txjax.config import load
from txjax.data import (
    Bytes,
    Characters,
    Images,
    Mixture,
    NextTokenWindows,
    Pairs,
    PromptedChoices,
    Sentences,
    SlidingWindows,
    TextWindows,
    TokenLabels,
)
from txjax.data.loading.default_eval_data import differences, follow_training_data, names_and_splits, sets
from txjax.experiment import with_default_eval_data
from txjax.train.run.workdir import read_config
from txjax.types import UserError

ROOT = Path(__file__).parents[2]
CONFIGS = sorted([*(ROOT / "configs").rglob("*.py"), *(ROOT / "experiments").glob("*/config*.py")])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: str(path.relative_to(ROOT)))
def test_one_flag_names_the_data_of_training_and_evaluation(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    data = config.load(str(path), []).data
    several = len({each.name for each in sets(data).values()}) > 1  # then an evaluation names one of them
    flags = [f"--config.{place}.{field}=other" for place in sets(data) for field in ("name", "data_dir")]
    experiment = with_default_eval_data(config.load(str(path), flags))
    for evaluator in experiment.evals.values():
        for each in sets(evaluator.data).values():
            assert (each.name == "other" and each.data_dir == "other") or several
    assert with_default_eval_data(experiment) == experiment


def test_named_evaluation_data_are_kept():
    train = NextTokenWindows(name="a", data_dir="there")
    assert follow_training_data(NextTokenWindows(name="b"), train) == NextTokenWindows(name="b")
    assert follow_training_data(NextTokenWindows(name="a", data_dir="here"), train).data_dir == "here"
    assert follow_training_data(NextTokenWindows(name="a"), train).data_dir == "there"


def test_mixtures_follow_part_by_part_or_one_set():
    train = Mixture({"x": TextWindows(name="a"), "y": TextWindows(name="b")})
    held_out = follow_training_data(Mixture({"y": TextWindows(split="test"), "x": TextWindows(split="test")}), train)
    assert {name: part.name for name, part in held_out.parts.items()} == {"x": "a", "y": "b"}
    assert names_and_splits(held_out) == ("b + a", "test")
    assert follow_training_data(held_out, TextWindows(name="c")) == held_out
    with pytest.raises(UserError, match=r"data.name: .*needs training data of one TFDS data set; these are a, b"):
        follow_training_data(TextWindows(split="test"), train)


def test_differences_are_phrases():
    train = Images(name="a", shape=(8, 8, 1))
    assert differences(Images(name="a", split="test"), train) == []
    assert differences(Images(name="b", shape=(4, 4, 1)), train) == [
        "b (training: a)",
        "image float32[4, 4, 1] (training: float32[8, 8, 1])",
    ]
    pairs = Pairs("c", source_tokenizer=Bytes())
    assert differences(pairs, Pairs("c")) == ["another source tokenizer than training"]


def test_what_describes_examples_is_the_training_data_s_unless_it_is_set():
    train = Images(name="a", shape=(32, 16, 3), mean=(0.1,), std=(0.2,), label="kind", split="train")
    assert follow_training_data(Images(split="test"), train) == dataclasses.replace(train, split="test")
    stated = follow_training_data(Images(split="test", shape=(8, 8, 1), std=(0.5,)), train)
    assert (stated.shape, stated.mean, stated.std) == ((8, 8, 1), (0.1,), (0.5,))
    assert follow_training_data(Images(name="b"), train) == Images(name="b")  # another set by name has its own
    windows = NextTokenWindows("a", length=32, tokenizer=Characters("ab"), feature="body")
    assert follow_training_data(NextTokenWindows(split="test"), windows) == dataclasses.replace(windows, split="test")
    long = follow_training_data(SlidingWindows(split="test", stride=4), windows)
    assert (long.length, long.tokenizer, long.feature) == (32, Characters("ab"), "body")
    # Of another kind: only the tokenizer is the model's.
    prompts = follow_training_data(PromptedChoices(split="test"), windows)
    assert (prompts.length, prompts.tokenizer) == (256, Characters("ab"))
    tagged = follow_training_data(TokenLabels(split="test"), Sentences("a", text=("text",)))
    assert tagged.text == ("tokens",)


def test_a_flag_of_the_training_data_is_one_of_the_evaluations_too(config):
    source = str(ROOT / "configs/text/gpt_tiny.py")
    flags = ["--config.data.length=32", "--config.data.feature=body"]
    assert with_default_eval_data(load(source, flags)).evals["valid"].data.length == 32
    flags.append("--config.evals.valid.data.length=64")
    data = with_default_eval_data(load(source, flags)).evals["valid"].data
    assert (data.length, data.feature) == (64, "body")
    flags.append("--config.evals.valid.data.length=None")
    assert with_default_eval_data(load(source, flags)).evals["valid"].data.length == 32


def test_classes_of_the_data_and_of_the_head_are_the_set_s():
    source = str(ROOT / "configs/vision/vit_digits.py")
    experiment = with_default_eval_data(load(source, []))
    assert experiment.data.classes == experiment.evals["test"].data.classes == experiment.model.head.classes == 10
    stated = with_default_eval_data(load(source, ["--config.model.head.classes=12"]))
    assert (stated.data.classes, stated.model.head.classes) == (10, 12)
    missing = with_default_eval_data(load(source, ["--config.data.name=nowhere"]))  # no error before the run's checks
    assert (missing.data.classes, missing.model.head.classes) == (None, None)


def test_a_head_without_a_number_of_classes(config, tmp_path, capsys):
    flags = ["--config.model.head=Classes(None, LastToken())", "--config.evals={}", "--config.checkpoint.best=None"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]) == 2
    err = capsys.readouterr().err
    assert "config.model.head.classes: expected a number, since config.data has no number of classes, got None" in err


def test_no_data_set_has_a_default_name(config, tmp_path, capsys):
    nameless = tmp_path / "nameless.py"
    nameless.write_text(config.read_text().replace('name="txjax_python_text", ', ""))
    assert main(["train", f"--config={nameless}", f"--workdir={tmp_path / 'run'}"]) == 2
    err = capsys.readouterr().err
    assert err == "txjax: config.data.name: expected the name of a TFDS data set, got None\n"


def test_evaluate_reports_data_split_and_differences_from_training(straight_run, tmp_path, capsys):
    assert read_config(straight_run).evals["valid"].data.name == "txjax_python_text"  # its config file leaves it out
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    assert main(["evaluate", f"--workdir={workdir}"]) == 0
    printed = capsys.readouterr()
    assert "txjax_python_text" in printed.out and "validation" in printed.out and printed.err == ""
    written = json.loads((workdir / "config.json").read_text())
    written["evals"]["valid"]["data"]["length"] = 8
    (workdir / "config.json").write_text(json.dumps(written))
    assert main(["evaluate", f"--workdir={workdir}", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["data"] == {"valid": {"name": "txjax_python_text", "split": "validation"}}
    assert "valid reads tokens int32[8] (training: int32[16])\n" in printed.err
