"""Runs that end when a score no longer improves: exact after interruptions, and ended for good."""

import json
import shutil

import pytest

from txjax import config as configs
from txjax.checkpoint import Store
from txjax.sweep.sweep_folder import is_finished
from txjax.train.population.population import train_together
from txjax.train.run_eval import Evaluations
from txjax.train.trainer import train
from txjax.types import UserError

from helpers import runs, tiny_experiments

# At such a learning rate nothing improves. Evaluations of `late` come after 7 steps only.
CONFIG = runs.CONFIG.replace("every_steps=10, max_batches=2)", "every_steps=2, max_batches=1)").replace(
    "max_batches=1)}", "max_batches=1), 'late': Evaluation(data=held_out, every_steps=7, max_batches=1)}"
)
STOP = "--config.stop=EarlyStopping('eval/valid/loss', patience=2)"
FLAGS = STOP, "--config.optimizer.peak_lr=1e-20"
REASON = "stopped at step 6 of 40: eval/valid/loss has not improved on {score} of step 2 for 2 evaluations"


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("stop") / "stop.py"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def stopped(config, tmp_path_factory):
    """The workdir of a run that has stopped, and its messages."""
    workdir = tmp_path_factory.mktemp("stopped") / "run"
    code, out, err = runs.train_here(config, workdir, *FLAGS)
    assert code == 0 and out.endswith("done: step 6\n"), err
    return workdir, err


def test_it_stops_saves_and_says_why(stopped):
    workdir, err = stopped
    rows = runs.rows(workdir)
    score = f"{rows[1]['eval/valid/loss']:.4g}"
    assert REASON.format(score=score) in err
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6] and Store(workdir).steps() == [6]
    assert "eval/late/loss" in rows[-1]  # all evaluations are of the last step, too
    assert is_finished(workdir, 40)  # for a sweep
    code, out, _ = runs.command("report", workdir, "--json", f"--out={workdir.parent / 'report'}")
    assert code == 0 and REASON.format(score=score).partition(": ")[2] in out


def test_a_later_resume_does_not_train_on(config, stopped, tmp_path):
    workdir = shutil.copytree(stopped[0], tmp_path / "run")
    code, out, err = runs.train_here(config, workdir, *FLAGS)
    assert code == 0 and out.endswith("done: step 6\n") and "stopped at step 6 of 40: eval/valid/loss has not" in err
    assert runs.rows(workdir) == runs.rows(stopped[0])
    more = "--config.stop.patience=3", "--until=7"
    code, out, err = runs.train_here(config, workdir, *FLAGS, *more)  # more patience: it continues
    assert code == 0 and runs.rows(workdir)[-1]["step"] == 7, err


@pytest.mark.parametrize("until", [3, 4, 5])
def test_an_interrupted_run_stops_at_the_same_step(config, stopped, tmp_path, until):
    assert runs.train_here(config, tmp_path, *FLAGS, f"--until={until}")[0] == 0
    code, out, err = runs.train_here(config, tmp_path, *FLAGS)
    assert code == 0 and out.endswith("done: step 6\n"), err
    assert runs.rows(tmp_path) == runs.rows(stopped[0])


def test_a_run_that_dies_in_its_last_evaluation_stops_when_it_resumes(config, stopped, tmp_path, monkeypatch):
    """The step is saved before: the resume evaluates it, finds that the run is over, and completes its record."""
    workdir, flags = tmp_path / "run", (*FLAGS, "--config.checkpoint.every_steps=2")
    evaluate, evaluated = Evaluations.__call__, []

    def dying(self, name, variables, step):
        evaluated.append(step)
        if step == 6:
            raise KeyboardInterrupt
        return evaluate(self, name, variables, step)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluations, "__call__", dying)
        with pytest.raises(KeyboardInterrupt):
            train(configs.load(str(config), list(flags)), workdir)
    assert evaluated == [2, 4, 6] and Store(workdir).steps()[-1] == 6 and not is_finished(workdir, 40)
    code, out, err = runs.train_here(config, workdir, *flags)
    assert code == 0 and out.endswith("done: step 6\n") and "stopped at step 6 of 40: eval/valid/loss has not" in err
    assert runs.rows(workdir) == runs.rows(stopped[0]) and is_finished(workdir, 40)


@pytest.mark.parametrize(
    ("flag", "error"),
    [
        (
            "--config.stop=EarlyStopping('eval/valid/los')",
            "config.stop.metric: expected a score of config.evals.valid, got 'eval/valid/los'; did you mean "
            "eval/valid/loss?",
        ),
        (
            "--config.stop=EarlyStopping('eval/vald/loss')",
            "config.stop.metric: expected a metric of an evaluation, got 'eval/vald/loss'; did you mean "
            "eval/valid/loss",
        ),
        (
            "--config.checkpoint.best=eval/valid/acuracy",
            "config.checkpoint.best: expected a score of config.evals.valid, got 'eval/valid/acuracy'; did you mean "
            "eval/valid/accuracy?",
        ),
    ],
)
def test_an_unknown_metric_is_refused_before_the_first_step(config, tmp_path, flag, error):
    code, _, err = runs.train_here(config, tmp_path / "run", flag)
    assert code == 2 and err.startswith(f"txjax: {error}") and not (tmp_path / "run").exists()


def test_an_unknown_metric_of_an_evaluator_without_known_names(config, tmp_path):
    """Its names are known after its first evaluation, which refuses it."""
    path = tmp_path / "own.py"
    path.write_text(
        CONFIG.replace("'late': Evaluation(", "'late': Own(").replace("def get_config", _OWN + "def get_config")
    )
    flags = "--config.stop=EarlyStopping('eval/late/los')", "--config.evals.late.every_steps=1"
    code, _, err = runs.train_here(path, tmp_path / "run", *flags)
    expected = "config.stop.metric: expected a score of config.evals.late, got 'eval/late/los'; did you mean "
    assert code == 2 and f"{expected}eval/late/loss?" in err


_OWN = '''
class Own(Evaluation):
    """An evaluator that does not say which scores it has."""
    def score_names(self, *args):
        return ()

'''


def test_members_of_a_population_refuse_it(tmp_path):
    from txjax.eval import EarlyStopping

    exps = [tiny_experiments.decoder(seed=seed, stop=EarlyStopping("eval/valid/loss")) for seed in (0, 1)]
    with pytest.raises(UserError, match="config.stop: expected None where points train together"):
        train_together(exps, [tmp_path / "0", tmp_path / "1"])


def test_the_record_of_the_last_step_has_the_reason(stopped):
    record = json.loads((stopped[0] / "checkpoints" / "6" / "record.json").read_text())
    assert record["stopped"].startswith("eval/valid/loss has not improved on ")
