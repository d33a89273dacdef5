"""A typo at any depth of any shipped config is one line that names the field, before anything is built."""

from pathlib import Path

import pytest

from txjax import config, tree
from txjax.overrides import check_override
from txjax.types import UserError

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.py"))


def fields(experiment) -> list[tuple[str, object]]:
    """Every field of the tree, at every depth, with its value."""
    return [(path, value) for path, value in tree.walk(experiment) if path != "config" and not path.endswith("]")]


def _dotted(path: str) -> str:
    return path.replace("[", ".").replace("]", "")


def user_error(experiment, flag: str) -> UserError:
    with pytest.raises(UserError) as error:
        check_override(experiment, flag)
    assert "\n" not in str(error.value)
    return error.value


@pytest.mark.slow
def test_every_misspelled_field():
    """Each field of a class is tried once, in the first config that has it."""
    tried = set()
    for source in CONFIGS:
        experiment = config.load(str(ROOT / source), [])
        classes, found = dict(tree.walk(experiment)), fields(experiment)
        assert len(found) > 40
        for path, _ in found:
            parent, _, name = path.rpartition(".")
            siblings = {other.rpartition(".")[2] for other, _ in found if other.rpartition(".")[0] == parent}
            where = (type(classes[parent]), name, parent if isinstance(classes[parent], dict) else None)
            if where in tried:
                continue
            tried.add(where)
            for typo in {name + name[-1], name[:-1], "x" + name, name[::-1], name[:1] + name[2:]} - siblings - {""}:
                error = user_error(experiment, f"--{parent}.{typo}=1")
                assert error.field == f"{_dotted(parent)}.{typo}" and "expected a field of" in str(error), path
            near = user_error(experiment, f"--{path}{name[-1]}=1").near if name + name[-1] not in siblings else (name,)
            assert name in near, (path, near)
    assert len(tried) > 150


def test_through_the_command_itself(config, tmp_path, capsys):
    """At three depths, on the command line: nothing is created."""
    from txjax.__main__ import main

    for flag, said in (
        ("--config.num_step=3", "config.num_step: expected a field of Experiment; did you mean num_steps"),
        ("--config.optimizer.schedule.warm_up_steps=3", "config.optimizer.schedule.warm_up_steps: expected a field of"),
        ("--config.evals.valid.data.lenth=3", "config.evals.valid.data.lenth: expected a field of NextTokenWindows"),
    ):
        assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", flag]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"txjax: {said}") and len(err.splitlines()) == 1, err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--config.data.split=trian", "config.data.split"),
        ("--config.evals.valid.data.split=vallidation", "config.evals.valid.data.split"),
        ("--config.evals.valid.data.name=txjax_python_txet", "config.evals.valid.data.name"),
    ],
)
def test_missing_data_of_training_and_evaluation(config, tmp_path, capsys, flag, said):
    from txjax.__main__ import main

    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", flag]) == 2
    err = capsys.readouterr().err
    assert said in err and "did you mean" in err and len(err.splitlines()) == 1, err
    assert not (tmp_path / "run").exists()
