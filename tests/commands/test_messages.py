"""Messages of common user errors: one line that says what to do."""

import numpy as np
import pytest

from txjax.__main__ import main
from txjax.config import load
from txjax.interop import huggingface
from txjax.models.text.decoder import gpt
from txjax.train.run.workdir import write_config

from helpers.arrays import variables


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(list(map(str, words))) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1, err
    return err


def test_no_workdir(config, capsys):
    err = refused(capsys, "train", f"--config={config}")
    assert (
        "expected --workdir (the run's folder: runs/first, or s3://bucket/runs/first)" in err
        and "txjax train --help" in err
    )
    assert "--config (FILE.py" in refused(capsys, "train") and "--workdir" in refused(capsys, "evaluate")


@pytest.mark.parametrize(
    ("flag", "near"),
    [
        ("--lr=3", "did you mean --config.optimizer.peak_lr?"),
        ("--steps=3", "did you mean --config.num_steps"),
        ("--warmup=3", "did you mean --config.optimizer.schedule.warmup_steps?"),
        ("--width=3", "did you mean --config.model.width?"),
        ("--learning-rate=3", "did you mean --config.optimizer.peak_lr?"),
        ("--bs=3", "did you mean --config.batch_size"),
        ("--workdirr=x", "did you mean --workdir?"),
        ("--config.optimizer.lr=3", "did you mean peak_lr"),
        ("--config.lr=3", "did you mean config.optimizer.peak_lr?"),
        ("--config.warmup_steps=3", "did you mean config.optimizer.schedule.warmup_steps?"),
    ],
)
def test_a_flag_under_the_name_that_others_give_it(config, tmp_path, capsys, flag, near):
    assert near in refused(capsys, "train", f"--config={config}", f"--workdir={tmp_path / 'run'}", flag)
    assert not (tmp_path / "run").exists()


def test_checkpoints_that_were_removed(config, tmp_path, capsys):
    workdir = tmp_path / "run"
    (workdir / "checkpoints").mkdir(parents=True)
    write_config(workdir, load(str(config), []))
    err = refused(capsys, "evaluate", f"--workdir={workdir}")
    assert f"--workdir: expected a run with a checkpoint, got '{workdir}'; there is none in" in err


def test_the_columns_of_a_table(tmp_path, capsys):
    table = tmp_path / "runs.csv"
    table.write_text("Params,D,loss\n1e6,1e8,3\n2e6,2e8,2.5\n")
    fit = ("scaling", "fit", f"--data={table}")
    err = refused(capsys, *fit)
    assert "params=COLUMN" in err and "did you mean params=Params?" in err and "the data has Params, D, loss" in err
    assert "the data has Params, D, loss" in refused(capsys, *fit, "--where=size=3")


def test_a_hugging_face_folder_without_a_tokenizer(tmp_path, capsys):
    model, workdir = gpt(vocab=260, width=8, depth=1, heads=2, max_length=16), tmp_path / "run"
    huggingface.save(model, variables(model, np.zeros((1, 4), np.int32)), tmp_path / "in")
    assert main(["import", f"--from={tmp_path / 'in'}", f"--workdir={workdir}"]) == 0
    out = capsys.readouterr().out
    for part in ("for export and --config.init_from", "expected a folder with a tokenizer.json", "AutoTokenizer"):
        assert part in out
    assert "it came without a tokenizer.json" in refused(capsys, "generate", f"--workdir={workdir}")
