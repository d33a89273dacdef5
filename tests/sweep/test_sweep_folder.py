"""A sweep's folder: finished and running points, new log rows, and how points set values."""

import json
from pathlib import Path

import pytest

from txjax.eval import Evaluation, Perplexity
from txjax.io.files import replace_text
from txjax.nn import Alibi, Rotary
from txjax.optim import AdamW, Lion
from txjax.overrides import set_field
from txjax.sweep.job import SweepJob
from txjax.sweep.progress import SweepProgress
from txjax.sweep.resolve import resolve
from txjax.sweep.slurm import line
from txjax.sweep.sweep_folder import Folder, SweepPoint, Tail
from txjax.train.run.workdir import lock_workdir
from txjax.types import UserError

from helpers import runs


def points(*names: str) -> list[SweepPoint]:
    return [SweepPoint(name, f"digest of {name}", {"seed": i}, 10, 1000) for i, name in enumerate(names)]


def save(folder: Folder, name: str, step: int) -> None:
    path = folder.run(name) / "checkpoints" / str(step)
    path.mkdir(parents=True)
    (path / "digests.json").write_text("{}")


def log(folder: Folder, name: str, *rows: dict) -> None:
    folder.run(name).mkdir(parents=True, exist_ok=True)
    replace_text(folder.run(name) / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def test_removed_points_are_kept_in_sweep_json(tmp_path):
    folder = Folder(tmp_path)
    folder.write(points("a", "b"), {"config": "c.py"})
    folder.write(points("c", "a"), {"config": "d.py"})
    assert [point.name for point in folder.points()] == ["c", "a", "b"]
    assert folder.points()[1] == points("c", "a")[1] and folder.read()["config"] == "d.py"


def test_a_point_is_one_process_at_a_time(tmp_path):
    folder = Folder(tmp_path)
    with folder.claim("a") as mine, folder.claim("a") as second, folder.claim("b") as other:
        assert (mine, second, other) == (True, False, True)
    with lock_workdir(folder.run("a")), folder.claim("a") as mine:  # another process trains there
        assert not mine
    with folder.claim("a") as mine:
        assert mine


def test_unfinished_points_and_their_flops(tmp_path):
    folder = Folder(tmp_path)
    work = SweepJob(folder, "c.py", [], points("a", "b", "c"))
    save(folder, "a", 10)
    save(folder, "b", 4)
    (folder.run("b") / "checkpoints" / "10").mkdir()  # a save that never finished
    assert [point.name for point in work.unfinished_points()] == ["b", "c"]
    assert work.flops_left() == 1000 * (6 + 10) and work.speed() is None
    log(folder, "a", {"step": 1}, {"step": 10, "perf/flops_per_s": 500.0, "perf/step_ms": 2000.0})
    assert work.speed() == 500
    assert line(work, work.points[1]) == f"--workdir={tmp_path}/b '--point=digest of b'"


def test_tail_gives_rows_once_and_starts_again_after_truncation(tmp_path):
    folder = Folder(tmp_path)
    tail = Tail(folder.run("a"))
    assert tail.read() == []
    log(folder, "a", {"step": 1, "x": 1.5})
    assert tail.read() == [{"step": 1, "x": 1.5}] and tail.read() == []
    with (folder.run("a") / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2}\n{"step": 3, "x"')
    assert tail.read() == [{"step": 2}] and tail.last == {"step": 2, "x": 1.5}
    log(folder, "a", {"step": 1, "x": 1.5})
    assert tail.read() == [{"step": 1, "x": 1.5}] and tail.last == {"step": 1, "x": 1.5}


def test_the_table_of_a_terminal(tmp_path):
    from rich.console import Console

    folder = Folder(tmp_path)
    work = SweepJob(folder, "c.py", [], points("first", "second", "third"))
    save(folder, "first", 10)
    log(folder, "second", {"step": 5, "train/loss": 2.0, "eval/valid/loss": 1.25})
    console = Console(record=True, width=100, height=12, force_terminal=True)
    with SweepProgress(work, console) as view:
        view.say(work.points[1], "running")
    text = console.export_text()
    assert text.index("second") < text.index("third") < text.index("first")  # running points are first
    assert "5/10" in text and "1.25" in text and "1 finished" in text and "1 running" in text and "1 waiting" in text


def experiment(tmp_path: Path) -> object:
    (tmp_path / "c.py").write_text(runs.CONFIG + "\ndef sweep():\n    return [{}]\n")
    return resolve(str(tmp_path / "c.py"), [])[0][0].experiment


def test_values_are_set_as_flags_would(tmp_path):
    run = experiment(tmp_path)
    lion = Lion(peak_lr=0.5)
    set_field(run, "optimizer", lion)
    set_field(run, "optimizer.peak_lr", 1)
    assert run.optimizer.peak_lr == 1.0 and type(run.optimizer.peak_lr) is float
    assert lion.peak_lr == 0.5  # the point's own object is not changed
    set_field(run, "model.positions", Alibi())
    set_field(run, "evals.valid", Perplexity(data=run.data))
    set_field(run, "trackers", [])
    assert run.trackers == () and isinstance(run.model.positions, Alibi)
    for path, value in (("optimizer", Rotary()), ("optimizer.peak_lr", "1"), ("seed", 1.5), ("evals", 3), ("ema", 1)):
        with pytest.raises(UserError, match=f"config.{path}: expected"):
            set_field(run, path, value)
    assert isinstance(run.optimizer, Lion) and not isinstance(run.optimizer, AdamW | Evaluation)


def test_module_level_objects_of_a_config_are_not_shared_by_points(tmp_path):
    text = runs.CONFIG.replace("def get_config():", "SHARED = AdamW()\n\ndef get_config():")
    text = text.replace("optimizer=AdamW(schedule=Constant(warmup_steps=2))", "optimizer=SHARED")
    text += '\ndef sweep():\n    return [{"optimizer.b1": 0.5}, {"optimizer.b2": 0.5}]\n'
    (tmp_path / "c.py").write_text(text)
    one, other = (run.experiment.optimizer for run in resolve(str(tmp_path / "c.py"), [])[0])
    assert (one.b1, other.b1, other.b2) == (0.5, AdamW().b1, 0.5)


def test_numpy_scalars_in_points(tmp_path):
    text = runs.CONFIG + "\nimport numpy as np\nfrom txjax.sweep import zip\n"
    text += '\ndef sweep():\n    return zip({"optimizer.peak_lr": np.logspace(-3, -1, 3), "seed": np.arange(3)})\n'
    (tmp_path / "c.py").write_text(text)
    found, _ = resolve(str(tmp_path / "c.py"), [])
    assert [run.name for run in found] == ["peak_lr=0.001", "peak_lr=0.01", "peak_lr=0.1"]
    assert [type(run.experiment.seed) for run in found] == [int] * 3
