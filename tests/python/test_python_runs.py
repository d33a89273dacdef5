"""Runs from Python are the commands' runs: equal bits, the stop of a notebook, scores, texts and predictions."""

import dataclasses
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest

import txjax
from txjax.__main__ import main
from txjax.errors import RunError
from txjax.objectives import NextToken
from txjax.python.row_classes import Prediction
from txjax.tree import to_json, walk
from txjax.types import UserError

from helpers import runs

pytestmark = pytest.mark.claim("Tests", "runs, scores and texts from Python equal the commands', to the last bit")
WORDS = {"good": ("fine", "lovely", "brilliant"), "bad": ("awful", "dull", "boring")}
SMALL = {
    "model.width": 16,
    "model.depth": 1,
    "model.heads": 2,
    "num_steps": 60,
    "batch_size": 16,
    "log_every_steps": 20,
    "checkpoint.every_steps": 60,
    "evals.test.every_steps": 60,
    "optimizer.schedule.warmup_steps": 5,
    "optimizer.peak_lr": 0.01,
}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("configs") / "small.py"
    path.write_text(runs.CONFIG)
    return str(path)


@pytest.fixture(scope="module")
def run(config: str, tmp_path_factory: pytest.TempPathFactory) -> txjax.Run:
    """Trained in two calls."""
    workdir = tmp_path_factory.mktemp("runs") / "python"
    half = txjax.fit(config, workdir, until=15)
    assert not half.finished and half.metrics[-1]["step"] == 15
    return half.resume()


def rows(workdir: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (workdir / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in row.items() if not k.startswith(("time", "perf/", "goodput"))} for row in lines]


def test_a_run_from_python_is_the_commands_run(run: txjax.Run, config: str, tmp_path: Path, capsys: Any) -> None:
    other = tmp_path / "command"
    assert main(["train", f"--config={config}", f"--workdir={other}"]) == 0
    assert run.finished and rows(run.workdir) == rows(other)
    ours, theirs = run.params, txjax.open(other).params
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    capsys.readouterr()
    assert main(["diff", str(run.workdir), str(other)]) == 0
    assert "config" not in capsys.readouterr().out


def test_scores_and_texts_are_the_commands(run: txjax.Run, capsys: Any) -> None:
    capsys.readouterr()
    assert main(["evaluate", f"--workdir={run.workdir}", "--json"]) == 0
    command = json.loads(capsys.readouterr().out)
    scores = run.evaluate()
    assert scores == {name: command[name] for name in scores} and "eval/valid/loss" in scores
    assert main(["generate", f"--workdir={run.workdir}", "--prompt=ab", "--length=8", "--samples=2", "--json"]) == 0
    texts = json.loads(capsys.readouterr().out)["texts"]
    assert run.generate("ab", length=8, samples=2) == texts and len(run.generate("a", "b", length=4)) == 2


def test_the_best_step_and_the_page(run: txjax.Run, capsys: Any) -> None:
    best = txjax.open(run.workdir, step="best")
    losses = {row["step"]: row["eval/valid/loss"] for row in run.metrics if "eval/valid/loss" in row}
    assert best.evaluate()["eval/valid/loss"] == pytest.approx(min(losses.values()), rel=1e-6)
    assert "<table>" in run._repr_html_() and run.report().read_text().startswith("<!doctype html>")


def test_a_plan_is_the_commands(run: txjax.Run, config: str, capsys: Any) -> None:
    pytest.importorskip("libtpu")
    capsys.readouterr()
    assert main(["plan", f"--config={config}", "--topology=v5e:2x2", "--json"]) == 0
    command = json.loads(capsys.readouterr().out)
    plan = run.plan("v5e:2x2")
    figures = json.loads(json.dumps(plan.to_json()))
    assert figures == {name: command[name] for name in figures} | {"compile_seconds": plan.compile_seconds}
    assert "MFU" in repr(plan) and f"<td>{plan.target.name}</td>" in plan._repr_html_()
    with pytest.raises(UserError, match="v5e"):
        run.plan("v5:2x2")


def test_an_experiment_shows_the_code_that_makes_it(run: txjax.Run) -> None:
    """Without what has its default; a notebook shows the same."""
    experiment = run.experiment
    names = {type(node).__name__: type(node) for _, node in walk(experiment) if dataclasses.is_dataclass(node)}
    assert to_json(eval(repr(experiment), names)) == to_json(experiment)
    assert max(map(len, repr(experiment).splitlines())) <= 100 and "seed" not in repr(experiment)
    assert experiment._repr_html_().startswith("<pre>Experiment(")


def test_a_folder_without_a_run_and_a_field_that_is_none(tmp_path: Path, config: str) -> None:
    with pytest.raises(UserError, match="expected the folder of a run"):
        txjax.open(tmp_path / "none")
    with pytest.raises(UserError, match="workdir: expected s3://BUCKET/FOLDER or gs://BUCKET/FOLDER"):
        txjax.fit(config, "s3://bucket")
    with pytest.raises(UserError, match="did you mean width"):
        txjax.load_config(config, {"model.widht": 3})


def reviews(count: int) -> pd.DataFrame:
    table = [(f"a {WORDS[stars][i % 3]} film, number {i}", stars) for i in range(count) for stars in WORDS]
    return pd.DataFrame(table, columns=["review", "stars"])


def test_a_table_is_trained_on_and_classified(tmp_path: Path) -> None:
    fields = {"data.source": reviews(100), "data.text": "review", "data.label": "stars", **SMALL}
    run = txjax.fit(txjax.load_config("txjax:text/classifier", fields), tmp_path / "reviews")
    table = Path(run.experiment.data.source)
    table.rename(tmp_path / "elsewhere")  # the training data are not needed for what follows
    unseen = reviews(130)[200:].sample(frac=1, random_state=0)
    predictions = run.predict(unseen[["review"]])
    assert [prediction.label for prediction in predictions] == list(unseen["stars"])
    assert set(predictions[0].probabilities) == {"bad", "good"}
    assert sum(predictions[0].probabilities.values()) == pytest.approx(1)
    assert run.predict([{"review": "a dull film"}])[0].label == "bad" and run.predict([]) == []
    (tmp_path / "elsewhere").rename(table)
    assert run.evaluate()["eval/test/accuracy"] > 0.9


def test_a_printed_prediction_has_the_five_most_probable_classes() -> None:
    shares = {f"class {i}": 2.0 ** -(i + 1) for i in (3, 0, 1, 2, *range(4, 1200))}
    prediction = Prediction("class 0", ("class 0",), shares)
    assert repr(prediction) == (
        "Prediction(label='class 0', labels=('class 0',), probabilities={'class 0': 0.5, 'class 1': 0.25, "
        "'class 2': 0.125, 'class 3': 0.0625, 'class 4': 0.03125, ... of 1,200})"
    )
    two = Prediction("a", ("b", "a"), {"b": 0.6, "a": 0.75})
    assert repr(two) == "Prediction(label='a', labels=('b', 'a'), probabilities={'a': 0.75, 'b': 0.6})"
    assert "labels=('0', '1', '2', '3', '4', ... of 9), " in repr(Prediction("0", tuple("012345678"), {}))


def test_callbacks_get_rows_scores_and_saves(config: str, run: txjax.Run, tmp_path: Path, caplog: Any) -> None:
    """They change nothing of the run, whatever they do with what they get; and a second call gets what is new."""
    steps: list[int] = []
    scores: dict[int, dict[str, float]] = {}
    saves: dict[int, bool] = {}

    def take(row: dict[str, Any]) -> None:
        steps.append(row["step"])
        row.clear()

    def take_save(step: int, folder: Path) -> None:
        saves[step] = (folder / "digests.json").exists()
        raise ValueError("no room")

    workdir = tmp_path / "called"
    half = txjax.fit(config, workdir, until=15, on_step=take, on_eval=scores.__setitem__, on_save=take_save)
    assert steps == [row["step"] for row in half.metrics] and 15 in saves and all(saves.values())
    assert half.callback_errors == {"on_save": len(saves)} and caplog.text.count("on_save raised") == 1
    before = len(steps)
    whole = txjax.fit(config, workdir, on_step=take, on_eval=scores.__setitem__)
    assert whole.callback_errors == {} and steps[before:] == [r["step"] for r in whole.metrics if r["step"] > 15]
    rows_of = {row["step"]: row for row in whole.metrics}
    assert scores and all(rows_of[step][name] == x for step, of in scores.items() for name, x in of.items())
    assert rows(workdir) == rows(run.workdir)


@dataclasses.dataclass
class Doubled(NextToken):
    """A component that no module of txjax has."""


def test_a_run_with_a_class_of_the_callers_own(config: str, tmp_path: Path) -> None:
    experiment = dataclasses.replace(txjax.load_config(config), objective=Doubled())
    half = txjax.fit(experiment, tmp_path / "own", until=5)
    assert not half.finished and isinstance(half.resume(until=7).experiment.objective, Doubled)
    with pytest.raises(UserError, match="if you trust that module"):
        txjax.open(tmp_path / "own")
    assert txjax.open(tmp_path / "own", trust=[__name__]).metrics[-1]["step"] == 7


def test_fields_may_be_components(config: str) -> None:
    """Of the caller's own classes, too; numbers and tuples are converted as a flag's are."""
    fields = {"objective": Doubled(), "optimizer.peak_lr": 1, "trackers": [], "seed": "7"}
    experiment = txjax.load_config(config, fields)
    assert isinstance(experiment.objective, Doubled) and experiment.optimizer.peak_lr == 1.0
    assert experiment.trackers == () and experiment.seed == 7
    with pytest.raises(UserError, match="config.objective: expected Objective, got"):
        txjax.load_config(config, {"objective": Path})


@pytest.mark.slow
def test_a_sweep_and_its_law(config: str, tmp_path: Path, capsys: Any) -> None:
    """The sweep of a config that has none, resumed by the same call; the law is the one of the command."""
    points = txjax.sweep.grid({"model.width": [16, 32], "seed": [0, 1]})
    few = {"num_steps": 6, "optimizer.schedule.warmup_steps": 2}
    swept = txjax.fit_sweep(config, tmp_path / "sweep", points[:3], few)
    first = {name: run.params for name, run in swept.items()}
    again = txjax.fit_sweep(config, tmp_path / "sweep", points, few)
    assert len(swept) == 3 and len(again) == 4 and all(run.finished for run in again.values())
    assert [run.experiment.model.width for run in again.values()] == [16, 16, 32, 32]
    for name, params in first.items():
        jax.tree.map(np.testing.assert_array_equal, params, again[name].params)
    with pytest.raises(UserError, match="points: expected dicts of numbers, texts"):
        txjax.fit_sweep(config, tmp_path / "wrong", [{"optimizer": object()}])
    assert not (tmp_path / "wrong").exists()
    with pytest.raises(RunError, match="ended with code 2"):
        txjax.fit_sweep(config, tmp_path / "wrong", [{"model.widht": 3}])


def test_a_law_is_the_commands(tmp_path: Path, capsys: Any) -> None:
    table = tmp_path / "runs.csv"
    sizes = [(n, d) for n in (1e6, 1e7, 1e8) for d in (1e8, 1e9, 1e10)]
    losses = [f"{n},{d},{1.7 + 400 / n**0.34 + 410 / d**0.28}" for n, d in sizes]
    table.write_text("\n".join(["params,tokens,loss", *losses]))
    law = txjax.fit_law(table, bootstrap=0)
    assert main(["scaling", "fit", f"--data={table}", "--bootstrap=0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] == dict(law.fitted.parameters)
    assert law.predict({"params": 1e9, "tokens": 2e10})["loss"] == pytest.approx(
        1.7 + 400 / 1e9**0.34 + 410 / 2e10**0.28, rel=1e-3
    )


NOTEBOOK = """
    import os, signal, sys, threading, time
    from pathlib import Path
    import txjax

    config, workdir = sys.argv[1], Path(sys.argv[2])

    def stop_when(ready):
        def wait():
            while not ready():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=wait, daemon=True).start()

    stop_when((workdir / "logs").exists)
    try:
        txjax.fit(config, workdir)
    except KeyboardInterrupt:
        print("interrupted before the first step")

    metrics = workdir / "metrics.jsonl"
    stop_when(lambda: metrics.exists() and '"step": 5,' in metrics.read_text())
    run = txjax.fit(config, workdir)
    assert 5 <= run.metrics[-1]["step"] < 40 and not run.finished
    print("finished", txjax.fit(config, workdir).finished)
"""


def test_the_stop_button_saves_and_the_same_cell_resumes(config: str, run: txjax.Run, tmp_path: Path) -> None:
    words = [sys.executable, "-c", textwrap.dedent(NOTEBOOK), config, str(tmp_path / "stopped")]
    ended = subprocess.run(words, env=runs.environment(), capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if not line.startswith(("step", "eval"))]
    assert lines == ["interrupted before the first step", "finished True"]
    assert rows(tmp_path / "stopped") == rows(run.workdir)


def test_the_import_takes_nothing_with_it() -> None:
    code = "import sys, txjax; txjax.__all__; print('jax' in sys.modules, 'numpy' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], env=runs.environment(), capture_output=True, text=True)
    assert ended.stdout == "False False\n"
    assert {name: getattr(txjax, name) for name in txjax.__all__}


def test_two_cells_on_one_workdir_are_one_error(config: str, tmp_path: Path) -> None:
    """A cell that starts while another one trains in the workdir: a line, and the first is not disturbed."""
    errors: list[BaseException] = []

    def train_again(row: dict[str, Any]) -> None:
        if row["step"] == 2:
            with pytest.raises(UserError) as caught:
                txjax.fit(config, tmp_path / "run")
            errors.append(caught.value)

    run = txjax.fit(config, tmp_path / "run", until=10, on_step=train_again)
    assert run.metrics[-1]["step"] == 10 and run.callback_errors == {}
    assert len(errors) == 1 and str(errors[0]).count("\n") == 0 and "workdir" in str(errors[0])


ALONE = """
    import gc, sys
    import jax
    import txjax

    config, workdir = sys.argv[1:]
    sys.argv = ["kernel", "-f", "connection.json", "--config.num_steps=3"]
    run = txjax.fit(config, workdir, until=3)
    scores = run.evaluate()
    gc.collect()
    from absl import flags

    print(sum(array.nbytes for array in jax.live_arrays()), flags.FLAGS.is_parsed(), run.metrics[-1]["step"])
"""


def test_after_fit_a_notebook_has_its_memory_and_flags(config: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", textwrap.dedent(ALONE), config, str(tmp_path / "run")]
    ended = subprocess.run(words, env=runs.environment(), capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    size, parsed, step = ended.stdout.splitlines()[-1].split()
    assert int(size) < 1000 and parsed == "False" and step == "3"
