"""Intervals cover as often as they say, and equal scipy's; tests of differences by their formulas."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from txjax.eval import Evaluation, Predictions
from txjax.eval.bootstrap_intervals import RESAMPLES, draws, interval, intervals, resamples
from txjax.eval.by_example import content, rows_of
from txjax.eval.comparison import BOOTSTRAP, MCNEMAR, differences, mcnemar, shifted_p_value
from txjax.eval.results import means, pack_rows, real_rows, unpack_rows
from txjax.objectives import Classification, TokenClassification
from txjax.types import Mean

from helpers.evaluations import Net, Pictures, Tagged, Tagger, measure

pytestmark = pytest.mark.claim(
    "Evaluation",
    "intervals equal scipy's and cover the truth in 91% to 98% of 200 sets; parts of examples in sums; McNemar by the "
    "binomial",
)


def table(**columns):
    count = len(next(iter(columns.values())))
    return {"id": np.arange(count), "given": np.zeros(count)} | columns


def test_an_interval_is_scipys():
    values = np.random.default_rng(1).gamma(2.0, size=60)
    method = {"n_resamples": RESAMPLES, "method": "percentile", "rng": np.random.default_rng(0)}
    low, high = scipy.stats.bootstrap((values,), np.mean, vectorized=True, axis=-1, **method).confidence_interval
    assert intervals(means, table(x=values))["x"] == pytest.approx((low, high), rel=1e-12)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """Of the share of right examples of 200 sets, each of 120 examples, of which 70% are right on average."""
    sets = np.random.default_rng(2).uniform(size=(200, 120)) < 0.7
    chosen = np.stack([np.bincount(index, minlength=120) for index in resamples(120)])
    low, high = np.quantile(chosen @ sets.T.astype(np.float64) / 120, (0.025, 0.975), axis=0)
    covered = np.mean((low <= 0.7) & (high >= 0.7))
    assert 0.91 <= covered <= 0.98
    assert intervals(means, table(x=sets[0]))["x"] == pytest.approx((low[0], high[0]), rel=1e-12)


def test_scores_that_a_resample_lacks_have_none():
    def rescore(rows):
        return {"x": 1.0} | ({"y": 2.0} if 0 in rows["id"] else {}) | {"z": math.inf if 1 in rows["id"] else 0.0}

    assert set(draws(rescore, table(x=np.ones(4)))) == {"x"}
    assert intervals(rescore, table(x=np.ones(0))) == {}


def test_mcnemar_by_the_binomial():
    a, b = (np.array([int(c) for c in text], bool) for text in ("1111111100011", "0000000111111"))
    only_a, only_b = 7, 3
    tail = sum(math.comb(10, k) for k in range(only_b + 1)) / 2**10
    assert mcnemar(a, b) == pytest.approx(2 * tail) == mcnemar(b, a)
    assert (a & ~b).sum() == only_a and (b & ~a).sum() == only_b
    assert mcnemar(a, a) == 1.0


def test_the_p_of_the_bootstrap():
    apart = np.array([0.5, 1.0, 1.5, 2.1])
    assert shifted_p_value(apart, 1.0) == pytest.approx((1 + 1) / 5)
    assert shifted_p_value(apart * 0, 0.0) == 1.0
    a, b = np.random.default_rng(3).normal(size=(2, 80)) + np.array([[0.0], [0.3]])
    (found,) = differences((means, table(x=a)), (means, table(x=b))).values()
    # Both have the resamples of the same examples.
    own = [(b - a)[index].mean() for index in resamples(80)]
    assert (found.low, found.high) == pytest.approx(interval(np.array(own)))
    # As the t-test of pairs, which it approximates.
    assert found.p == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, abs=0.03) and found.test == BOOTSTRAP


def test_the_test_of_a_score():
    right = np.random.default_rng(4).uniform(size=(2, 50)) < 0.6
    sums = {"x_count": np.full(50, 3.0)}
    for more, test in (({}, MCNEMAR), ({"x_count": np.ones(50)}, MCNEMAR), (sums, BOOTSTRAP)):
        a, b = (table(x=column.astype(np.float32), **more) for column in right)
        assert differences((means, a), (means, b))["x"].test == test


def test_files_of_results():
    rows = table(x=np.arange(6.0).reshape(3, 2))
    assert pack_rows(rows) == pack_rows(rows)
    found = unpack_rows(pack_rows(rows))
    assert {name: column.tolist() for name, column in found.items()} == {k: v.tolist() for k, v in rows.items()}
    for damaged in (b"", pack_rows(rows)[:-30], pack_rows({"id": np.ones(2)}), pack_rows(rows | {"x": np.ones(4)})):
        with pytest.raises(ValueError):
            unpack_rows(damaged)


def kept(model, objective, evaluation, **more):
    results: dict = {}
    scores = measure(model, objective, evaluation, results=results, **more)
    return scores, results["x"]


def test_the_mean_of_an_objective_by_example():
    """The accuracy of each example equals that of its prediction; the scores those of batches."""
    scores, rows = kept(Net(), Classification(), Evaluation(data=Pictures()))
    _, predictions = kept(Net(), Classification(), Predictions(data=Pictures()))
    assert rows["id"].tolist() == predictions["id"].tolist()
    assert rows["accuracy"].tolist() == predictions["accuracy"].tolist() and set(rows["accuracy_count"]) == {1.0}
    assert scores == pytest.approx(Evaluation(data=Pictures()).rescore(rows), rel=1e-6)
    assert scores == pytest.approx(measure(Net(), Classification(), Evaluation(data=Pictures())), rel=1e-6)


def test_the_mean_of_tokens_by_text():
    evaluation = Evaluation(data=Tagged())
    scores, rows = kept(Tagger(), TokenClassification(), evaluation)
    batch = [Tagged().open().example(i, 0, np.random.default_rng(0)) for i in range(len(Tagged().open()))]
    right = [(each["weights"] * (each["tokens"] == each["targets"])).sum() for each in batch]
    assert rows["accuracy"].tolist() == right
    assert rows["accuracy_count"].tolist() == [each["weights"].sum() for each in batch]
    assert scores == pytest.approx(evaluation.rescore(rows), rel=1e-6)


def test_examples_of_other_tokens_have_another_content():
    tokens = np.array([[1, 2, 0, 0], [2, 1, 0, 0], [1, 2, 0, 0]], np.int32)
    batch = {"id": np.arange(3), "tokens": tokens, "image": np.ones((3, 2), np.float32)}
    found = content({name: jnp.asarray(x) for name, x in batch.items()})
    assert found[0] == found[2] != found[1]
    cut = content({"id": jnp.arange(3), "tokens": jnp.asarray(tokens[:, :2])})
    assert cut.tolist() == found.tolist()  # in a shorter bucket


def test_sums_that_are_not_linear_in_the_weights_have_no_parts():
    real = np.array([True, True, False])

    def part(total, count):
        return Mean(np.float32(total), np.float32(count))

    whole = {"loss/a": part(3.0, 2.0), "b": part(5.0, 2.0), "c": part(5.0, 2.0)}
    each = {
        "loss/a": ([1.0, 2.0, 0.0], [1.0, 1.0, 0.0]),
        "b": ([0.0] * 3, [0.0] * 3),
        "c": ([2.0, 3.0, 0.0], [1, 1, 0]),
    }
    parts = {name: Mean(*(np.array(x, np.float32) for x in columns)) for name, columns in each.items()}
    given = np.arange(3)
    rows = rows_of([(whole, parts, real, given)], "loss/")
    assert set(rows) == {"id", "given", "loss/a", "loss/a_count", "c", "c_count"} and rows["c"].tolist() == [2.0, 3.0]
    whole["loss/d"], parts["loss/d"] = whole["b"], parts["b"]  # without one term the sum of the terms is none
    assert set(rows_of([(whole, parts, real, given)], "loss/")) == {"id", "given", "c", "c_count"}


def test_rows_without_a_weight_are_left_out():
    parts = [{"x": np.array([1, 2]), "weights": np.array([0.0, 1.0])}, {"x": np.array([3, 4]), "weights": np.ones(2)}]
    rows = real_rows(parts)
    assert {name: column.tolist() for name, column in rows.items()} == {"id": [1, 2, 3], "x": [2, 3, 4]}
    assert means(rows | {"given": rows["x"], "x_count": np.zeros(3)}) == {}
