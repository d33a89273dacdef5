"""All mistakes of a config are shown together, and none that only follows from another one."""

import pickle

import pytest

from txjax.__main__ import main
from txjax.checks import Checks, UserErrors
from txjax.errors import MissingResource
from txjax.types import UserError


def refused(capsys: pytest.CaptureFixture[str], config, tmp_path, *flags: str) -> list[str]:
    """The lines of a start that is refused, without `txjax: `. It leaves no workdir."""
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *flags]) == 2
    assert not (tmp_path / "run").exists()
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("txjax: ") for line in lines), lines
    return [line.removeprefix("txjax: ") for line in lines]


def test_flags_that_name_no_field_and_values_of_other_types(config, tmp_path, capsys):
    flags = ["--config.modle.width=3", "--config.model.depth=a", "--config.data.lenth=3", "--config.num_steps=-5"]
    lines = refused(capsys, config, tmp_path, *flags, "--stesp", "4")
    assert len(lines) == 5
    assert lines[0].startswith("txjax train: expected a known flag, got '--stesp'")
    assert lines[1].startswith("config.modle: expected a field of Experiment; did you mean model?")
    assert lines[2] == "config.model.depth: expected a whole number, got 'a'"
    assert lines[3].startswith("config.data.lenth: expected a field of NextTokenWindows; did you mean length")
    assert lines[4] == "config.num_steps: expected at least 1, got -5"


def test_a_field_of_a_component_that_is_refused_is_no_mistake_of_its_own(config, tmp_path, capsys):
    flags = ["--config.model.positions=Rotry()", "--config.model.positions.theta=500", "--config.model.positions.x=1"]
    (line,) = refused(capsys, config, tmp_path, *flags)
    assert line.startswith("config.model.positions: expected a class of txjax for Positions, got 'Rotry'")


def test_values_data_mesh_objective_and_evaluations(config, tmp_path, capsys):
    flags = [
        "--config.max_skips=0",
        "--config.optimizer.b1=2.0",
        "--config.mesh.fsdp=7",
        "--config.data.split=trian",
        "--config.model.vocab=100",
        "--config.evals={'short': Evaluation(data=NextTokenWindows(split='validaton')), "
        "'long': Evaluation(data=NextTokenWindows(split='validation', feature='txt'))}",
        "--config.checkpoint.best=eval/x/loss",
    ]
    lines = refused(capsys, config, tmp_path, *flags)
    assert [line.partition(": expected")[0] for line in lines] == [
        "config.max_skips",
        "config.optimizer.b1",
        "config.mesh",
        "config.data.split",
        "config.model.vocab",
        "config.evals.short.data.split",
        "config.evals.long.data.feature",
        "config.checkpoint.best",
    ]


def test_what_evaluations_have_from_the_training_data_is_one_mistake(config, tmp_path, capsys):
    (line,) = refused(capsys, config, tmp_path, "--config.data.name=txjax_python_txet")
    assert line.startswith("config.data.name: expected a TFDS data set, got 'txjax_python_txet'")


def test_scores_of_an_evaluation_with_a_mistake_are_not_looked_for(config, tmp_path, capsys):
    flags = ["--config.evals.valid.batch_size=-1", "--config.checkpoint.best=eval/valid/loss"]
    assert refused(capsys, config, tmp_path, *flags) == ["config.evals.valid.batch_size: expected at least 1, got -1"]


def test_a_seed_that_jax_refuses_is_one_line(config, tmp_path, capsys):
    (line,) = refused(capsys, config, tmp_path, f"--config.seed={10**20}")
    assert line.startswith("config.seed: expected less than 2147483648, got")


def test_a_batch_that_no_mesh_can_split_is_left_out(config, tmp_path, capsys):
    flags = ["--config.mesh.data=2", "--config.batch_size=7", "--config.microbatches=2"]
    lines = refused(capsys, config, tmp_path, *flags)
    assert [line.partition(", got")[0] for line in lines] == [
        "config.mesh: expected axes that multiply to the 1 devices here",
        "config.batch_size: expected a multiple of microbatches = 2",
    ]


def test_data_of_training_and_evaluation_that_are_too_short(config, tmp_path, capsys):
    data_sets = ("data", "evals.valid.data")
    flags = [f"--config.{field}.{value}" for field in data_sets for value in ("length=1000000", "split=validation[:1]")]
    lines = refused(capsys, config, tmp_path, *flags)
    assert [line[: line.index(" with")] for line in lines] == [
        f"config.{field}.length: expected a length" for field in data_sets
    ]


def test_a_check_that_needs_a_field_with_an_error_is_left_out():
    def fail(field: str) -> None:
        raise UserError(field, "x")

    checks = Checks()
    assert checks.run(lambda value: value + 1, 1) == 2
    for field in ("config.data.parts[0]", "config.mesh"):
        checks.run(fail, field)
    for needed in ("config.data", "config.data.parts[0].name", "config.mesh"):
        assert checks.has_error(needed) and checks.run(fail, "config", needs=[needed]) is None
    assert not checks.has_error("config.database")
    checks.run(fail, "config.mesh")  # an error is there once
    assert [error.field for error in checks.errors] == ["config.data.parts[0]", "config.mesh"]


def test_a_missing_package_is_shown_once_after_it_travelled():
    checks = Checks()
    for place in ("config.data", "config.evals.test.data"):
        error = pickle.loads(pickle.dumps(MissingResource("data", "x", hint="y").with_path(place, "data")))
        with checks.collect():
            raise error.with_hint("z")
    assert checks.has_error("config.evals.test")  # and what depends on it is not checked
    with pytest.raises(MissingResource, match="^config.data: expected x; y; z$"):
        checks.finish()


def test_a_missing_data_set_that_two_fields_name_is_one_line(config, tmp_path, capsys):
    names = ["--config.data.name=made_text", "--config.evals.valid.data.name=made_text"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *names]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("txjax: config.data.name: expected a TFDS data set, got 'made_text'")


def test_several_errors_travel_as_one():
    errors = UserErrors([UserError("data.a", "x", 1), UserError("data.b", "y", hint="z")])
    assert str(pickle.loads(pickle.dumps(errors))) == str(errors) == "data.a: expected x, got 1\ndata.b: expected y; z"
    assert str(errors.with_path("config.data", "data").with_hint("w")) == (
        "config.data.a: expected x, got 1; w\nconfig.data.b: expected y; z; w"
    )
