"""One pass checks a config: its model is traced once, and mistakes of several kinds are shown together."""

import dataclasses

from txjax.__main__ import main
from txjax.nn import QuantizedKernels
from txjax.nn.adapters import LoRA
from txjax.objectives import NextToken
from txjax.optim import AdamW, train_adapter
from txjax.train.check import check

from helpers import tiny_experiments


def test_all_checks_share_one_trace_of_the_variables(monkeypatch):
    """The refusals of quantized kernels, which must be frozen, and the layout of the state."""
    calls, init = [], NextToken.init

    def count(self, *args):
        calls.append(args)
        return init(self, *args)

    monkeypatch.setattr(NextToken, "init", count)
    plain = tiny_experiments.decoder()
    model = plain.model.clone(adapter=LoRA(rank=2), storage=QuantizedKernels("int8"))
    experiment = dataclasses.replace(plain, model=model, optimizer=AdamW(groups=train_adapter()))
    layout = check(experiment)
    assert len(calls) == 1
    assert layout.parameters > check(plain).parameters and layout.abstract.frozen


def test_mistakes_with_and_without_a_trace_are_one_message(config, tmp_path, capsys):
    flags = [
        "--config.max_skips=0",
        "--config.model.positions=Learned(max_length=8)",
        "--config.checkpoint.every_steps=15",
    ]
    flags += ["--config.stop=EarlyStopping('eval/vald/loss')", "--config.evals.valid.batch_size=0"]
    workdir = tmp_path / "run"
    assert main(["train", f"--config={config}", f"--workdir={workdir}", *flags]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(": expected")[0] for line in lines] == [
        "txjax: config.max_skips",
        "txjax: config.evals.valid.batch_size",
        "txjax: config.stop.metric",
        "txjax: config.checkpoint.every_steps",
        "txjax: config.model.positions.max_length",
    ]
    assert not workdir.exists()


def test_mistakes_of_data_and_optimizer_do_not_hide_those_of_the_model(config, tmp_path, capsys):
    """The model is traced on what the spec of the data says, which does not depend on where its records are."""
    flags = ["--config.data.split=vald", "--config.model.heads=3", "--config.optimizer.b1=2"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "txjax: config.optimizer.b1: expected less than 1, got 2.0",
        "txjax: config.data.split: expected splits of txjax_python_text (train, validation), got 'vald'; did you mean "
        "validation?",
        "txjax: config.model.heads: expected a divisor of the width 16, got 3",
    ]


def test_a_run_to_start_from_that_is_not_there_is_shown_beside_other_mistakes(config, tmp_path, capsys):
    flags = ["--config.log_every_steps=0", f"--config.init_from={tmp_path / 'no_run'}"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(", got")[0] for line in lines] == [
        "txjax: config.log_every_steps: expected at least 1",
        "txjax: config.init_from: expected the folder of a run (with a config.json)",
    ]


def test_an_unknown_score_is_shown_beside_other_mistakes(config, tmp_path, capsys):
    flags = ["--config.log_every_steps=0", "--config.stop=EarlyStopping('eval/valid/los')"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(", got")[0] for line in lines] == [
        "txjax: config.log_every_steps: expected at least 1",
        "txjax: config.stop.metric: expected a score of config.evals.valid",
    ]
