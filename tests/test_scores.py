"""Configs reach the scores of their docstrings: `python -m pytest -m score -k gpt_tiny` trains one of them."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from txjax import config
from txjax.types import UserError

from helpers import scores
from helpers.scores import Score, cpu_minutes, known, read
from selection import Item, describe_tree, per_family, select


def describe(score: Score) -> Item:
    """The item of a score, for the selection of a change."""
    item = describe_tree(config.load(score.source, []), score.path)
    return dataclasses.replace(item, name=score.name, parts=frozenset())


@pytest.mark.score
@per_family("score", describe, lambda score: 60 * score.minutes, budget=60 * scores.MINUTES, turns=0, least=0)
@pytest.mark.parametrize("score", known(), ids=lambda score: score.name)
def test_a_config_reaches_its_score(score, tfds, tmp_path, monkeypatch):
    if tfds is not None:
        monkeypatch.setenv("TFDS_DATA_DIR", str(tfds))
    experiment = config.load(score.source, [])
    try:
        experiment.data.check()  # that of evaluations follows it
    except UserError as error:
        if not error.field.endswith(("name", "data_dir")) or "txjax_" in str(error):
            raise
        pytest.skip(f"its data is not here: {error}")
    words = [sys.executable, "-m", "txjax", "train", f"--config={score.source}", f"--workdir={tmp_path / 'run'}"]
    plain = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}  # optimised as for a user
    ended = subprocess.run(words, env=plain, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    print(f"{score.name}: {score.metric} {last[score.metric]:.4g}, promised {score.value}")
    assert last["step"] == experiment.num_steps and score.holds(last[score.metric])
    assert all(last[metric] <= most for metric, most in score.bounds)


def test_a_config_that_trains_on_a_cpu_has_a_score_that_its_evaluations_give():
    found = known()
    assert len(found) >= 10
    for score in found:
        evals = config.load(score.source, []).evals
        assert {metric.split("/")[1] for metric in (score.metric, *dict(score.bounds))} <= set(evals), score
        assert 0 < score.value < 100 and 0 < score.minutes <= 20, score


def test_scores_are_read_from_docstrings(tmp_path):
    path = tmp_path / "made.py"
    for cost, line, wanted in (
        (
            "half a minute to 3 minutes on two CPU cores",
            "eval/valid/loss 1.92, nats",
            (None, "eval/valid/loss", 1.92, 3.0),
        ),
        ("1.5 minutes of a CPU", "mrpc: eval/valid/f1 0.7 ± 0.1.", ("mrpc", "eval/valid/f1", 0.7, 1.5)),
        ("90 seconds on two CPU cores", "eval/test/accuracy 0.976.", (None, "eval/test/accuracy", 0.976, 1.5)),
        ("1e18 FLOPs", "not run here.", None),
    ):
        path.write_text(f'"""A config.\n\nCost: {cost}.\nScore: {line}\n"""\n')
        assert read(path) == (Score(path, *wanted) if wanted else None)
    path.write_text('"""A.\n\nCost: 2 minutes of a CPU.\nScore: eval/x/f1 0.9.\nBound: eval/y/f1 0.60 at most.\n"""\n')
    assert read(path) == Score(path, None, "eval/x/f1", 0.9, 2.0, (("eval/y/f1", 0.6),))
    path.write_text('"""A config.\n\nCost: 2 minutes on a CPU.\nScore: good.\n"""\n')
    with pytest.raises(ValueError, match="expected a line such as `Score:"):
        read(path)


def test_a_loss_may_be_lower_and_an_accuracy_higher():
    score = Score(Path("a.py"), None, "eval/valid/loss", 2.0, 1.0)
    assert score.holds(1.0) and score.holds(2.01) and not score.holds(2.1)
    score = dataclasses.replace(score, metric="eval/valid/accuracy", value=0.9)
    assert score.holds(0.99) and score.holds(0.89) and not score.holds(0.8)


def test_a_change_trains_two_minutes_of_configs_at_most():
    items = {score.name: describe(score) for score in known()}
    minutes = {items[score.name]: score.minutes for score in known()}
    for commit in "12345678":
        picked = select(items.values(), minutes.__getitem__, set(), commit, scores.MINUTES, turns=0)
        assert 0 < sum(minutes[item] for item in picked.items) <= scores.MINUTES
    changed = select(items.values(), minutes.__getitem__, {"txjax/models/vision/swin/swin.py"}, "1", 99, turns=0)
    assert {item.name for item in changed.changed} == {"swin_digits", "swin_fashion"}
    assert cpu_minutes("no cost") is None
