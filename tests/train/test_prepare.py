"""A config that is refused leaves no trace, and a workdir without a checkpoint takes another."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest

from txjax.__main__ import main
from txjax.data import Dataset
from txjax.experiment import Experiment
from txjax.models.text.decoder import Decoder
from txjax.objectives import NextToken
from txjax.train.check import check
from txjax.train.open_data import open_data
from txjax.types import UserError, spec


@pytest.mark.parametrize("more", [[], ["--dry_run"]], ids=["train", "dry run"])
@pytest.mark.parametrize("place", ["data", "evals.valid.data"])
def test_data_that_do_not_fit_leave_nothing(config, tmp_path, capsys, place, more):
    """The set is there and so is its split: only reading it shows that it is too short."""
    workdir, flags = tmp_path / "run", [f"--config.{place}.length=1000000", f"--config.{place}.split=validation[:1]"]
    assert main(["train", f"--config={config}", f"--workdir={workdir}", *flags, *more]) == 2
    err = capsys.readouterr().err
    assert f"config.{place}.length: expected a length with two windows" in err and len(err.splitlines()) == 1, err
    assert not workdir.exists()


def test_a_workdir_without_a_checkpoint_takes_a_new_config(config, straight_run, tmp_path, capsys):
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    words = ["train", f"--config={config}", f"--workdir={workdir}", "--config.model.width=32", "--dry_run"]
    assert main(words) == 2
    assert "model.width: 16 -> 32" in capsys.readouterr().err
    for step in (workdir / "checkpoints").iterdir():
        shutil.rmtree(step)
    before = {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()}
    assert main(words) == 0
    assert "config OK" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in workdir.rglob("*") if path.is_file()} == before


def test_a_workdir_whose_steps_are_all_damaged_keeps_its_config(config, straight_run, tmp_path, capsys):
    workdir = shutil.copytree(straight_run, tmp_path / "run")
    for step in (workdir / "checkpoints").iterdir():
        step.rename(step.with_name(f"{step.name}.bad"))
    words = ["train", f"--config={config}", f"--workdir={workdir}", "--config.model.width=32", "--dry_run"]
    assert main(words) == 2
    assert "model.width: 16 -> 32" in capsys.readouterr().err


def test_the_fields_alone_need_no_data(config, tmp_path, capsys):
    words = ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", "--config.data.name=nowhere"]
    assert main([*words, "--dry_run=fields"]) == 0
    assert main([*words, "--dry_run"]) == 2
    assert "config.data.name" in capsys.readouterr().err


@dataclasses.dataclass
class Constant(Dataset):
    """One example, which may not be what its spec says."""

    value: np.ndarray
    count: int = 1

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        return {"id": spec((), "int32"), "label": spec((), "int32")}

    def open(self):
        return self

    def __len__(self) -> int:
        return self.count

    def example(self, index, epoch, rng):
        return {"label": self.value}


def test_an_example_is_held_to_its_spec():
    assert len(open_data("config.data", Constant(np.int32(3)))) == 1
    for value, said in (
        (np.float32(3), r"config.data: expected label to be int32\[\], as its spec\(\) says, got 'float32\[\]'"),
        (np.zeros(2, np.int32), r"got 'int32\[2\]'"),
    ):
        with pytest.raises(UserError, match=said):
            open_data("config.data", Constant(value))
    with pytest.raises(UserError, match="config.evals.valid.data: expected at least one example"):
        open_data("config.evals.valid.data", Constant(np.int32(3), count=0))


def test_a_spec_with_an_unknown_key_is_a_user_error():
    @dataclasses.dataclass
    class Odd(Constant):
        def check(self):
            pass

        def spec(self):
            return {"id": spec((), "int32"), "labell": spec((), "int32")}

    experiment = Experiment(Decoder(vocab=8, width=8, depth=1, heads=1), NextToken(), Odd(np.int32(0)))
    with pytest.raises(
        UserError, match=r"config.data: expected Odd.spec\(\) with keys of .*, got 'labell'; did you mean label"
    ):
        check(experiment)


def test_a_dry_run_of_several_points_trains_none(config, tmp_path, capsys):
    study = tmp_path / "study.py"
    study.write_text(config.read_text() + "\ndef sweep():\n    return [{'seed': 1}, {'seed': 2}]\n")
    words = ["train", f"--config={study}", f"--workdir={tmp_path / 'runs'}", "--point=seed=1", "--point=seed=2"]
    assert main([*words, "--dry_run"]) == 0
    assert capsys.readouterr().out.count("config OK") == 2 and not (tmp_path / "runs").exists()


def test_evaluation_data_longer_than_the_positions_are_refused_before_training(config, tmp_path, capsys):
    flags = ["--config.model.positions=Learned(max_length=16)", "--config.evals.valid.data.length=32"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]) == 2
    err = capsys.readouterr().err
    assert "positions.max_length: expected at least the input's length of 32, got 16" in err, err
    assert not (tmp_path / "run").exists()
