"""From a budget to runs: their FLOPs, their sizes, their rules, and what is refused."""

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
    """FLOPs of the run that a point makes of a config."""
    flags = [f"--config.{path}={value}" for path, value in point.items()]
    experiment = config.load(source, flags)
    return flops_per_step(experiment) * experiment.num_steps


@pytest.mark.parametrize("source", CONFIGS)
def test_every_run_spends_its_budget_for_any_objective(source):
    made = ladder(source, head_size=16)
    budget = 400.0 * flops_per_step(made.base)
    rungs = made.isoflop([budget], sizes=3)
    assert len({rung.width for rung in rungs}) == 3 and all(rung.width % 16 == 0 for rung in rungs)
    for rung in rungs:
        assert trained(source, rung.point(made.base.evals)) == rung.flops == pytest.approx(budget, rel=0.01)
        assert rung.heads * 16 == rung.width and rung.params > rung.params_without_embeddings * 0.99
    tokens = [rung.tokens for rung in rungs]
    assert tokens == sorted(tokens, reverse=True)  # the larger the model, the less it sees


def test_rules_are_followed():
    source = "configs/text/gpt_tiny.py"
    made = ladder(source, head_size=8, aspect=16, lr_by_width=-1.0, lr_by_batch=0.5, batch_by_tokens=0.5, warmup=0.1)
    base = made.base
    (rung,) = made.isoflop([3e13], widths=[64])
    assert (rung.depth, rung.heads) == (4, 8)
    more = rung.tokens / (base.num_steps * base.batch_size * 128)
    assert rung.batch_size in (8 * 2**k for k in range(9)) and 0.7 < rung.batch_size / (8 * more**0.5) < 1.42
    assert rung.lr == pytest.approx(3e-3 * (96 / 64) * (rung.batch_size / 8) ** 0.5, rel=1e-3)
    assert rung.warmup == round(min(0.1 * rung.steps, rung.params / (128 * rung.batch_size)))
    point = rung.point(["valid"])
    assert point["evals.valid.every_steps"] == point["num_steps"] == rung.steps


def test_a_grid_has_every_ratio_of_tokens_to_parameters():
    rungs = ladder("configs/text/gpt_tiny.py").ratios([32, 64], [5, 20])
    assert [(r.width, round(r.tokens / r.params)) for r in rungs] == [(32, 5), (32, 20), (64, 5), (64, 20)]


def test_budgets_below_a_target():
    assert below(1e14, 3) == pytest.approx([1e12, 10**12.5, 1e13])


def test_the_command_prints_costs_and_writes_points(tmp_path, capsys):
    flags = ["--config=configs/text/gpt_tiny.py", "--target=1e13", "--rungs=2", "--sizes=3", "--flops_per_second=1e10"]
    assert main(["scaling", "ladder", *flags, f"--out={tmp_path}/ladder.json", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "ladder.json").read_text())
    assert told["points"] == written["points"] and len(told["points"]) == 6
    assert (
        told["flops"]
        == sum(rung["flops"] for rung in told["rungs"])
        == pytest.approx(3 * (1e12 + 1e12 / 10**0.5), rel=0.01)
    )
    assert told["hours"] == pytest.approx(told["flops"] / 1e10 / 3600)
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
def test_a_mistake_is_one_line(flags, words, capsys):
    assert main(["scaling", "ladder", "--config=configs/text/gpt_tiny.py", *flags]) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.strip().splitlines()) == 1, err
