"""Own evaluators and objectives are traced before anything compiles: a mistake is one line, before the first step."""

import dataclasses
import re

import pytest

from txjax import config as configs
from txjax.train.population.population import train_together
from txjax.types import UserError

from helpers.runs import CONFIG, rows, train_here

OWN = '''
import dataclasses

from txjax.eval import Evaluator
from txjax.eval.evaluation import add, mean_of
from txjax.types import Mean


@dataclasses.dataclass
class Likeliest(Evaluator):
    """The share of the likeliest token, as an id of a text model's output."""

    def start(self, context):
        def likeliest(variables, batch):
            logits = context.model.apply(variables, **context.objective.inputs(context.model, batch), train=False)
            return Mean.of(logits.argmax(-1), batch["weights"])  # MARK program

        program = context.program(likeliest)

        def evaluate(variables, step):
            found = add(context.run_batches(program, variables, context.source, self.max_batches))
            return {"likeliest": mean_of(found) / (step - 10)}  # MARK host

        return evaluate


@dataclasses.dataclass
class Halved(NextToken):
    def __call__(self, model, variables, batch, key, train):
        batch = batch | {"weights": batch["weigths"]}  # MARK objective
        return super().__call__(model, variables, batch, key, train)
'''


def write(folder, before, after):
    """A config file with the components, and the number of the line of each mark."""
    path = folder / "own.py"
    path.write_text(CONFIG.replace(before, after).replace("def get_config", OWN + "\n\ndef get_config"))
    lines = path.read_text().splitlines()
    marks = {words[1]: i for i, line in enumerate(lines, 1) if (words := re.search(r"# MARK (\w+)", line))}
    return path, marks


def test_an_evaluator_that_breaks_on_logits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, marks = write(tmp_path, "Evaluation(data=", "Likeliest(data=")
    message = (
        f"txjax: config.evals.valid: expected code that runs, got 'own.py (line {marks['program']})'; "
        "AttributeError: 'Logits' object has no attribute 'argmax'; "
        '`return Mean.of(logits.argmax(-1), batch["weights"])  # MARK program`; --traceback shows all\n'
    )
    for flags in ([], ["--dry_run"]):
        code, _, err = train_here(path, tmp_path / "run", "--config.checkpoint.best=None", *flags)
        assert (code, err) == (2, message) and not (tmp_path / "run").exists()
    experiment = configs.load(str(path), ["--config.checkpoint.best=None"])
    other = dataclasses.replace(experiment, seed=1)
    with pytest.raises(UserError, match=re.escape(message[len("txjax: ") :].strip())):
        train_together([experiment, other], [tmp_path / "a", tmp_path / "b"])
    assert not (tmp_path / "a").exists()


def test_an_objective_that_breaks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, marks = write(tmp_path, "objective=NextToken()", "objective=Halved()")
    for flags in ([], ["--dry_run"]):
        code, _, err = train_here(path, tmp_path / "run", *flags)
        where = f"got 'own.py (line {marks['objective']})'; KeyError: 'weigths'; `batch = batch"
        assert code == 2 and len(err.splitlines()) == 1
        assert err.startswith(f"txjax: config.model, config.objective: expected code that runs, {where}")
        assert not (tmp_path / "run").exists()


def test_an_evaluator_that_breaks_after_its_program(tmp_path, monkeypatch):
    """Its own arithmetic sees no values before the first evaluation; then the step is saved, and the line says it."""
    monkeypatch.chdir(tmp_path)
    path, marks = write(tmp_path, "Evaluation(data=", "Likeliest(data=")
    path.write_text(path.read_text().replace("logits.argmax", "logits.dense().argmax"))
    code, _, err = train_here(path, tmp_path / "run", "--config.checkpoint.best=None")
    where = f"got 'own.py (line {marks['host']})'; ZeroDivisionError: "
    assert code == 2 and f"txjax: config.evals.valid: expected code that runs, {where}" in err.splitlines()[-1]
    assert "Traceback" not in err and (tmp_path / "run" / "checkpoints" / "10" / "digests.json").exists()
    assert len(rows(tmp_path / "run")) == 9
    assert "Traceback" in (tmp_path / "run" / "logs" / "process_0.log").read_text()
