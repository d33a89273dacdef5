"""Nearest neighbours, linear probe, few-shot regression: the papers' formulas and scikit-learn on equal features."""

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from txjax.eval import FewShot, LinearProbe, NearestNeighbours
from txjax.eval.features.few_shot import draws
from txjax.experiment import Experiment
from txjax.objectives import Classification
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import CLASSES, IMAGES, LABELS, Net, Pictures, measure

FEATURES = IMAGES.reshape(len(IMAGES), -1)[:, :5].astype(np.float64)
TRAIN = Pictures(split="train")


def neighbours(bank: np.ndarray, k: int, temperature: float) -> float:
    """Accuracy on all labelled examples, as Wu et al. 2018 write it."""
    unit = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True)
    right = []
    for i in np.flatnonzero(LABELS >= 0):
        similarity = unit[bank] @ unit[i]
        nearest = np.argsort(-similarity)[:k]
        votes = [np.exp(similarity[nearest] / temperature) @ (LABELS[bank][nearest] == c) for c in range(CLASSES)]
        right.append(np.argmax(votes) == LABELS[i])
    return float(np.mean(right))


@pytest.mark.parametrize(("k", "temperature", "batch_size"), [(1, 0.07, 16), (5, 0.5, 8), (1000, 0.1, 56)])
def test_nearest_neighbours(k, temperature, batch_size):
    evaluation = NearestNeighbours(data=Pictures(), k=k, temperature=temperature, batch_size=batch_size)
    scores = measure(Net(), Classification(), evaluation, data=TRAIN)
    bank = np.flatnonzero(LABELS[:40] >= 0)
    assert scores == {"accuracy": pytest.approx(neighbours(bank, k, temperature), rel=1e-6)}


def test_the_training_examples_may_be_fewer_and_are_spread_over_the_split():
    evaluation = NearestNeighbours(data=Pictures(), train=TRAIN, max_train=11, k=1)
    chosen = np.arange(11) * 40 // 11
    bank = chosen[LABELS[chosen] >= 0]
    expected = neighbours(bank, 1, 0.07)
    assert measure(Net(), Classification(), evaluation)["accuracy"] == pytest.approx(expected, rel=1e-6)
    assert expected != neighbours(np.flatnonzero(LABELS[:11] >= 0), 1, 0.07)


def test_linear_probe():
    scores = measure(Net(), Classification(), LinearProbe(data=Pictures(), penalty=0.5), data=TRAIN)
    bank, real = np.flatnonzero(LABELS[:40] >= 0), LABELS >= 0
    x = (FEATURES - FEATURES[bank].mean(0)) / FEATURES[bank].std(0)
    probe = LogisticRegression(C=2.0, max_iter=1000).fit(x[bank], LABELS[bank])
    assert scores["accuracy"] == pytest.approx(probe.score(x[real], LABELS[real]))
    assert scores["train_accuracy"] == pytest.approx(probe.score(x[bank], LABELS[bank]))


def ridge(chosen: np.ndarray, penalty: float, bank: np.ndarray) -> np.ndarray:
    """The classes of all examples by the normal equations of the chosen ones, with a bias that is not penalized."""
    x = (FEATURES - FEATURES[bank].mean(0)) / FEATURES[bank].std(0)
    x = np.hstack([x, np.ones((len(x), 1))])
    targets = 2.0 * (LABELS[:, None] == np.arange(CLASSES)) - 1
    penalties = penalty * np.diag([1.0] * (x.shape[1] - 1) + [0.0])
    return x @ np.linalg.solve(x[chosen].T @ x[chosen] + penalties, x[chosen].T @ targets[chosen])


@pytest.mark.parametrize("penalties", [(0.25,), (2.0**-6, 1.0, 64.0, 2.0**12)])
def test_few_shot_regression_by_its_normal_equations(penalties):
    known, real = np.flatnonzero(LABELS[:40] >= 0), LABELS >= 0
    evaluation = FewShot(data=Pictures(), shots=(2, 6), seeds=(0, 3), penalties=penalties)
    scores = measure(Net(), Classification(), evaluation, data=TRAIN)
    targets = 2.0 * (LABELS[:, None] == np.arange(CLASSES)) - 1
    expected = {"accuracy_2": [], "accuracy_6": []}
    for seed in (0, 3):
        for count, among in zip((2, 6), draws(LABELS[known], (2, 6), seed), strict=True):
            bank = known[among]
            assert (np.bincount(LABELS[bank]) == count).all()

            def error(penalty, bank=bank):  # each example's, when the others are fitted
                found = [ridge(bank[bank != i], penalty, bank)[i] - targets[i] for i in bank]
                return np.square(found).mean()

            guesses = ridge(bank, min(penalties, key=error), bank).argmax(1)
            expected[f"accuracy_{count}"].append((guesses == LABELS)[real].mean())
    assert scores == {name: pytest.approx(np.mean(each)) for name, each in expected.items()}


def test_few_shot_draws_are_nested_and_a_small_class_gives_all():
    labels = np.asarray([0] * 9 + [1] * 3 + [2] * 9)
    few, more = draws(labels, (2, 5), seed=1)
    assert set(few) < set(more) and list(np.bincount(labels[more])) == [5, 3, 5]
    assert not np.array_equal(few, next(draws(labels, (2,), seed=2)))


@pytest.mark.parametrize("kind", [LinearProbe, FewShot, NearestNeighbours])
def test_user_errors_before_compilation(kind):
    class Silent(Net):
        def sow(self, *args, **kwargs):
            return False

    def refuse(said, model=None, data=TRAIN, **fields):
        evaluation = kind(**{"data": Pictures()} | fields)
        with pytest.raises(UserError, match=said):
            check(
                Experiment(
                    model=model or Net(), objective=Classification(), data=data, evals={"x": evaluation}, batch_size=16
                )
            )

    refuse('config.model: expected a model that sows "features"', model=Silent())
    refuse("config.evals.x.train.*the run trains on other", data=dataclasses.replace(TRAIN, name="other"))
    refuse("config.evals.x.train: expected examples with label", train=Pictures(classes=None))


@pytest.mark.parametrize(("field", "value"), [("shots", (0,)), ("shots", ()), ("penalties", (0.0, 1.0))])
def test_few_shot_user_errors(field, value):
    with pytest.raises(UserError, match=rf"eval\.{field}: expected one or more numbers"):
        FewShot(data=Pictures(), **{field: value}).check(Net(), Classification(), TRAIN)
