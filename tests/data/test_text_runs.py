"""Whole runs on trained tokenizers and on batches of several lengths."""

import json

import pytest

from txjax.commands import generate
from txjax.data import BPE, NextTokenWindows, Sentences, Trained, train_batches
from txjax.experiment import Experiment
from txjax.log import read_metrics
from txjax.models.text.bert.bert import Bert
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import Learned
from txjax.objectives import MaskedToken, NextToken
from txjax.optim import AdamW, Linear
from txjax.train.trainer import train

from helpers import sentence_set

SIZES = {"vocab": 300, "width": 8, "depth": 1, "heads": 1}
RUN = {
    "optimizer": AdamW(peak_lr=1e-2, schedule=Linear(warmup_steps=1)),
    "num_steps": 6,
    "batch_size": 8,
    "log_every_steps": 1,
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return sentence_set.prepare(tmp_path_factory.mktemp("tfds"))


def tokenizer(data_dir):
    return Trained(BPE(), 300, "made_sentences", "train", data_dir, ("first", "second"))


def rows(workdir):
    kept = ("step", "train/loss", "train/grad_norm", "train/batch_hash")
    return [{key: row[key] for key in kept} for row in read_metrics(workdir)]


@pytest.mark.slow
def test_batches_of_several_lengths_train_and_resume_to_the_bit(data_dir, tmp_path):
    features, how = ("first", "second"), {"buckets": (24,), "sort_batches": 3}

    def run(name, until=None):
        data = Sentences("made_sentences", "train", data_dir, 48, tokenizer(data_dir), features, **how)
        model, objective = Bert(**SIZES, positions=Learned(max_length=48)), MaskedToken(mask_id=4, vocab=300)
        assert train(Experiment(model=model, objective=objective, data=data, **RUN), tmp_path / name, until=until) == 0
        return data

    batches = train_batches(run("straight").open(), batch_size=8, seed=0)
    assert {next(batches)["tokens"].shape[1] for _ in range(6)} == {24, 48}
    run("stopped", until=2)
    run("stopped")
    straight = rows(tmp_path / "straight")
    assert len(straight) == 6 and rows(tmp_path / "stopped") == straight


@pytest.mark.slow
def test_generate_uses_the_tokenizer_of_training(data_dir, tmp_path, capsys):
    data = NextTokenWindows("made_sentences", "train", data_dir, 16, tokenizer(data_dir), "first")
    run = Experiment(model=Decoder(**SIZES), objective=NextToken(), data=data, **RUN | {"num_steps": 2})
    assert train(run, tmp_path) == 0
    capsys.readouterr()
    assert generate.run([f"--workdir={tmp_path}", "--prompt=the dog", "--length=5", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["texts"]) == 1
