"""The ladder: FLOPs, sizes and rules of its runs, and user errors."""

import json

import pytest

from txjax import config
from txjax.__main__ import main
from txjax.experiment import with_default_eval_data
from txjax.scaling.ladder import Ladder, budgets_below
from txjax.scaling.ladder_point import point_of
from txjax.scaling.ladder_rules import Rules
from txjax.sweep.names import NAME
from txjax.train.state.counting import flops_per_step

# One of each objective: next token, masked token, masked patch, classification.
CONFIGS = {
    "configs/text/gpt_tiny.py": [],
    "configs/text/mlm_tiny.py": [],
    "configs/vision/mae_digits.py": [],
    "configs/vision/vit_digits.py": [],
}


def ladder(source: str, **rules: float) -> Ladder:
    return Ladder(lambda more: with_default_eval_data(config.load(source, list(more))), Rules(**rules))


def trained(source: str, point: dict) -> int:
    """FLOPs of the run of a config with a point applied."""
    flags = [f"--config.{path}={value}" for path, value in point.items() if path != NAME]
    experiment = with_default_eval_data(config.load(source, flags))
    return flops_per_step(experiment) * experiment.num_steps


@pytest.mark.slow
@pytest.mark.parametrize("source", CONFIGS)
def test_every_run_has_the_flops_of_its_budget_for_any_objective(source):
    made = ladder(source, head_size=16)
    budget = 400.0 * flops_per_step(made.base)
    made_runs = made.isoflop([budget], sizes=3)
    assert len({run.width for run in made_runs}) == 3 and all(run.width % 16 == 0 for run in made_runs)
    for run in made_runs:
        assert trained(source, point_of(run, made.base)) == run.flops == pytest.approx(budget, rel=0.01)
        assert run.heads * 16 == run.width and run.params > run.params_without_embeddings * 0.99
    tokens = [run.tokens for run in made_runs]
    assert tokens == sorted(tokens, reverse=True)  # larger models train on fewer tokens


def test_rules():
    source = "configs/text/gpt_tiny.py"
    made = ladder(source, head_size=8, aspect=16, lr_by_width=-1.0, lr_by_batch=0.5, batch_by_tokens=0.5, warmup=0.1)
    base = made.base
    (run,) = made.isoflop([3e13], widths=[64])
    assert (run.depth, run.heads) == (4, 8)
    more = run.tokens / (base.num_steps * base.batch_size * 128)
    assert run.batch_size in (8 * 2**k for k in range(9)) and 0.7 < run.batch_size / (8 * more**0.5) < 1.42
    assert run.lr == pytest.approx(3e-3 * (96 / 64) * (run.batch_size / 8) ** 0.5, rel=1e-3)
    assert run.warmup == round(min(0.1 * run.steps, run.params / (128 * run.batch_size)))
    point = point_of(run, base)
    assert point["evals.valid.every_steps"] == point["num_steps"] == run.steps
    assert point["name"] == "flops=3e+13,width=64" and point["checkpoint.best"] is None


def test_grid_of_widths_and_tokens_per_parameter():
    made = ladder("configs/text/gpt_tiny.py").ratios([32, 64], [5, 20])
    assert [(r.width, round(r.tokens / r.params)) for r in made] == [(32, 5), (32, 20), (64, 5), (64, 20)]


def test_budgets_below_a_target():
    assert budgets_below(1e14, 3) == pytest.approx([1e12, 10**12.5, 1e13])


def test_command_prints_costs_and_writes_points(tmp_path, capsys):
    flags = [
        "--config=configs/text/gpt_tiny.py",
        "--target=1e13",
        "--num_budgets=2",
        "--sizes=3",
        "--flops_per_second=1e10",
    ]
    assert main(["scaling", "ladder", *flags, f"--out={tmp_path}/ladder.json", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "ladder.json").read_text())
    assert printed["points"] == written["points"] and len(printed["points"]) == 6
    assert (
        printed["flops"]
        == sum(run["flops"] for run in printed["runs"])
        == pytest.approx(3 * (1e12 + 1e12 / 10**0.5), rel=0.01)
    )
    assert printed["hours"] == pytest.approx(printed["flops"] / 1e10 / 3600)
    assert main(["scaling", "ladder", *flags]) == 0
    assert "6 runs, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "one of --budgets, --target and --ratios"),
        (["--budgets=1e11", "--target=1e12"], "one of --budgets, --target and --ratios"),
        (["--budgets=1e7", "--widths=64"], "take a smaller config.batch_size or a larger budget"),
        (["--ratios=5,20"], "--widths"),
        (["--budgets=1e11,x"], "--budgets"),
        (["--target=configs/text/gpt_tny.py"], "gpt_tiny.py"),
        (["--budgets=1e11", "--sizes=0"], "--sizes"),
    ],
)
def test_a_user_error_is_one_line(flags, words, capsys):
    assert main(["scaling", "ladder", "--config=configs/text/gpt_tiny.py", *flags]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.strip().splitlines()) == 1, err


STUDY = """
import json
from pathlib import Path

from txjax.sweep import grid
from configs.text.gpt_tiny import get_config

def sweep():
    points = json.loads(Path(__file__).with_name("ladder.json").read_text())["points"]
    return grid(points, {{"seed": range({seeds})}})
"""


def test_sweep_accepts_every_point_of_a_ladder(tmp_path, capsys):
    """The ladder and the sweep of docs/scaling.md: `sweep` checks each point as `train` would."""
    budgets = ["--budgets=1e11,3e11,1e12", "--sizes=5", "--flops_per_second=2e10"]
    out, study = tmp_path / "ladder.json", tmp_path / "study.py"
    assert main(["scaling", "ladder", "--config=configs/text/gpt_tiny.py", *budgets, f"--out={out}", "--json"]) == 0
    capsys.readouterr()
    study.write_text(STUDY.format(seeds=2))
    assert main(["sweep", f"--config={study}", f"--workdir={tmp_path}/runs", "--dry_run", "--json"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert len(points) == 30
    assert [point["name"] for point in points[:3]] == [
        "flops=1e+11,width=16,seed=0",
        "flops=1e+11,width=16,seed=1",
        "flops=1e+11,width=32,seed=0",
    ]


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        ("WarmupStableDecay(decay_steps=250)", {"decay_steps": 28}),  # 250 of 300 steps; the ladder has 34
        ("WarmupStableDecay(warmup_steps=0,decay_steps=300)", {"decay_steps": 32}),  # 2 of the 34 are the warmup
        ("InverseSquareRoot(warmup_steps=20,hold_steps=60)", {"hold_steps": 7}),
        ("Cosine()", {}),
    ],
)
def test_phases_of_the_schedule_fit_the_steps_of_the_run(schedule, steps):
    """Each keeps its share of the run, and no run is refused for a decay that is longer than it."""
    source, flags = "configs/text/gpt_tiny.py", [f"--config.optimizer.schedule={schedule}"]
    made = Ladder(lambda more: config.load(source, [*flags, *more]), Rules())
    (run,) = made.ratios([16], [2.0])
    point = point_of(run, made.base)
    phases = {path.rpartition(".")[2]: value for path, value in point.items() if "schedule" in path}
    assert (run.steps, phases) == (34, {"warmup_steps": 2} | steps)
    flags += [f"--config.{path}={value}" for path, value in point.items() if path != NAME]
    assert config.load(source, flags).optimizer.lr(run.steps)(run.steps - 1) > 0
