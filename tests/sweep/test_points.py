"""Lists of points: combinations, samples and names."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import qmc

from txjax.nn import Alibi, Rotary
from txjax.sweep import LogUniform, Uniform, Whole, chain, grid, sample, zip
from txjax.sweep.names import names
from txjax.sweep.resolve import points_of, resolve
from txjax.types import UserError


def test_a_grid_is_every_combination_and_the_last_axis_changes_fastest():
    points = grid({"a": [1, 2], "b": ["xy", "z"]}, {"seed": range(2)})
    expected = [{"a": a, "b": b, "seed": s} for a, b, s in itertools.product([1, 2], ["xy", "z"], [0, 1])]
    assert points == expected


def test_lists_of_points_as_axes():
    sizes = zip({"width": [64, 128], "heads": [2, 4]})
    assert [(p["width"], p["heads"]) for p in sizes] == [(64, 2), (128, 4)]
    points = grid(sizes, {"seed": [0, 1]})
    assert [(p["width"], p["heads"], p["seed"]) for p in points] == [(64, 2, 0), (64, 2, 1), (128, 4, 0), (128, 4, 1)]
    assert zip(sizes, {"lr": [0.1, 0.2]})[1] == {"width": 128, "heads": 4, "lr": 0.2, "name": "width=128"}
    assert chain(sizes, [{"width": 1}]) == [*sizes, {"width": 1}]
    assert grid() == [{}]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: grid({"a": [1]}, {"a": [2]}), "different paths, got 'a'"),
        (lambda: grid({"a": []}), "values for a"),
        (lambda: grid({"a": 3}), "a list of values for a, got 3"),
        (lambda: grid({"a": "text"}), "a list of values for a, got 'text'"),
        (lambda: zip({"a": [1, 2], "b": [1]}), "one length in zip, got '2 of a, 1 of b'"),
        (lambda: sample(4, {"a": Uniform(0, 1)}, method="sobel"), "did you mean sobol"),
        (lambda: sample(4, {"a": LogUniform(0, 1)}), "0 < low <= high"),
        (lambda: sample(0, {"a": Uniform(0, 1)}), "at least one point"),
        (lambda: sample(2, {"a": []}), "values for a"),
    ],
)
def test_user_errors(make, words):
    with pytest.raises(UserError) as caught:
        make()
    assert words in str(caught.value)


@pytest.mark.parametrize("method", ["sobol", "halton", "latin", "random"])
def test_samples_lie_in_their_ranges_and_are_the_same_again(method):
    ranges = {"lr": LogUniform(1e-4, 1e-1), "wd": Uniform(0, 0.5), "depth": Whole(2, 4), "mode": ["a", "b"]}
    points = sample(64, ranges, method=method, seed=3)
    assert points == sample(64, ranges, method=method, seed=3) != sample(64, ranges, method=method, seed=4)
    assert all(1e-4 <= p["lr"] <= 1e-1 and 0 <= p["wd"] <= 0.5 for p in points)
    assert {p["depth"] for p in points} == {2, 3, 4} and {p["mode"] for p in points} == {"a", "b"}
    assert all(type(p["depth"]) is int and float(f"{p['lr']:.4g}") == p["lr"] for p in points)
    # A third of the learning rates in each of three decades: evenly in their logarithm.
    decades = np.bincount([int(4 + math.log10(p["lr"]) - 1e-9) for p in points], minlength=3)
    assert (abs(decades - 64 / 3) < (12 if method == "random" else 3)).all()


def test_low_discrepancy():
    """SciPy's own measure of how evenly the square is filled."""
    ranges = {"a": Uniform(0, 1), "b": Uniform(0, 1)}

    def discrepancy(method: str) -> float:
        points = sample(32, ranges, method=method)
        return qmc.discrepancy(np.array([[p["a"], p["b"]] for p in points]))

    assert max(map(discrepancy, ("sobol", "halton", "latin"))) < discrepancy("random") / 2


def test_names_are_unique_and_valid_folder_names():
    points = [
        {"optimizer.peak_lr": 1e-5, "model.positions": Alibi()},
        {"optimizer.peak_lr": 0.1 + 0.2, "model.positions": Rotary(theta=500.0)},
        {"data.length": 64, "evals.valid.data.length": 128},
        {"data.name": "a/../b c", "ema": None},
        {},
    ]
    assert names(points) == [
        "peak_lr=1e-05,positions=Alibi",
        "peak_lr=0.30000000000000004,positions=Rotary_theta500",
        "data.length=64,valid.data.length=128",
        "name=a-..-b-c,ema=None",
        "base",
    ]
    long = names([{"data.name": "x" * 300}, {"data.name": "x" * 299 + "y"}])
    assert len(set(long)) == 2 and max(map(len, long)) <= 120


def test_zipped_points_are_named_by_the_first_axes_that_differ():
    sizes = zip({"model.width": [64, 64, 128], "model.heads": [2, 4, 4], "batch_size": [8, 16, 32]})
    assert names(sizes) == ["width=64,heads=2", "width=64,heads=4", "width=128,heads=4"]
    assert names(grid(sizes[1:], {"seed": [3]})) == ["width=64,heads=4,seed=3", "width=128,heads=4,seed=3"]
    arms = zip({"seed": [0, 1], "batch_size": [8, 16]})
    others = zip({"seed": [1, 2], "batch_size": [8, 8]})
    assert names(chain(arms, others)) == ["seed=0", "seed=1,batch_size=16", "seed=1,batch_size=8", "seed=2"]
    assert names(zip({"seed": [1, 1], "batch_size": [8, 8]})) == ["seed=1", "seed=1"]


def test_points_may_have_names_of_their_own():
    """The name stands for all settings of its point; points that are joined with it add theirs."""
    sizes = [
        {"name": "small", "model.width": 16, "model.heads": 2},
        {"name": "large", "model.width": 32, "model.heads": 4},
    ]
    assert names(sizes) == ["small", "large"]
    points = grid(sizes, {"seed": [0, 1], "optimizer.peak_lr": [0.1]})
    assert names(points) == [f"{size},seed={seed},peak_lr=0.1" for size in ("small", "large") for seed in (0, 1)]
    assert {path: value for path, value in points[-1].items() if path != "name"} == {
        "model.width": 32, "model.heads": 4, "seed": 1, "optimizer.peak_lr": 0.1,
    }  # fmt: skip


def test_points_may_name_variants_of_the_file(tmp_path):
    path = tmp_path / "study_of_variants.py"
    path.write_text(
        "from helpers.tiny_experiments import decoder\n"
        "VARIANTS = ('a', 'b')\n"
        "def get_config(variant='a'):\n    return decoder(num_steps={'a': 1, 'b': 2}[variant])\n"
        "def sweep():\n    return [{'variant': v, 'seed': s} for v in 'ab' for s in (0, 1)]\n"
    )
    runs, same = resolve(str(path), ["--config.batch_size=16"])
    assert [run.name for run in runs] == [f"variant={v},seed={s}" for v in "ab" for s in (0, 1)]
    assert [(run.experiment.num_steps, run.experiment.seed) for run in runs] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert same == 0 and all(run.experiment.batch_size == 16 for run in runs)
    assert points_of(str(path), ["--config.batch_size=16"], [runs[2].digest])[0].experiment.num_steps == 2
    other = tmp_path / "study_of_another_variant.py"
    other.write_text(path.read_text().replace("in 'ab'", "in 'ac'"))
    with pytest.raises(UserError, match=r"--config: expected a variant of .*got .c.; .*in the point variant=c,seed=0"):
        resolve(str(other), [])
