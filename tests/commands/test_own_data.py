"""A run, or an import without one, is evaluated on other data by flags, which write nothing into its workdir."""

import json

import jax
import numpy as np
import pytest
from commands.test_interop import tokenizer
from tensorflow_datasets import features

from txjax.__main__ import main
from txjax.data import NextTokenWindows, TokenizerFolder
from txjax.interop import huggingface
from txjax.models.text.decoder import gpt

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
