"""The ladder: FLOPs, sizes and rules of its runs, and user errors."""

import json

import pytest

from txjax import config
from txjax.__main__ import main
from txjax.scaling.ladder import Ladder, Rules, below
from txjax.train.counting import flops_per_step

# One of each objective: next token, masked token, masked patch, classification.
CONFIGS = {
    "configs/text/gpt_tiny.py": [],
    "configs/text/mlm_tiny.py": [],
    "configs/vision/mae_digits.py": [],
    "configs/vision/vit_digits.py": [],
}


def ladder(source: str, **rules: float) -> Ladder:
    return Ladder(lambda more: config.load(source, list(more)), Rules(**rules))


def trained(source: str, point: dict) -> int:
    """FLOPs of the run of a config with a point applied."""
    flags = [f"--config.{path}={value}" for path, value in point.items()]
    experiment = config.load(source, flags)
    return flops_per_step(experiment) * experiment.num_steps


@pytest.mark.slow
@pytest.mark.parametrize("source", CONFIGS)
def test_every_run_has_the_flops_of_its_budget_for_any_objective(source):
    made = ladder(source, head_size=16)
    budget = 400.0 * flops_per_step(made.base)
    made_runs = made.isoflop([budget], sizes=3)
    assert len({run.width for run in made_runs}) == 3 and all(run.width % 16 == 0 for run in made_runs)
    for run in made_runs:
        assert trained(source, run.point(made.base.evals)) == run.flops == pytest.approx(budget, rel=0.01)
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
    point = run.point(["valid"])
    assert point["evals.valid.every_steps"] == point["num_steps"] == run.steps


def test_grid_of_widths_and_tokens_per_parameter():
    made = ladder("configs/text/gpt_tiny.py").ratios([32, 64], [5, 20])
    assert [(r.width, round(r.tokens / r.params)) for r in made] == [(32, 5), (32, 20), (64, 5), (64, 20)]


def test_budgets_below_a_target():
    assert below(1e14, 3) == pytest.approx([1e12, 10**12.5, 1e13])


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
