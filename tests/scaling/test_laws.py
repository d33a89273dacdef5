"""Fits recover known laws from synthetic runs, and published parameters from published runs."""

import csv
import time

import numpy as np
import pytest

from txjax.scaling.bootstrap import bootstrap
from txjax.scaling.criterion import Criterion
from txjax.scaling.curves import Broken, DataConstrained, Kaplan, Overtraining, Parametric, Power
from txjax.scaling.envelope import Envelope
from txjax.scaling.forms import form_named
from txjax.scaling.isoflop import IsoFLOP
from txjax.scaling.lr_law import LearningRate
from txjax.scaling.regression import Regression
from txjax.scaling.study import interval, study
from txjax.scaling.table import Table, read_table
from txjax.types import UserError

from helpers.scaling_runs import LAW, grid, loss, noise, profiles, public

pytestmark = pytest.mark.claim("Sweeps, populations, laws", "published fits (needs their data beside the checkout)")


def chinchilla() -> Table:
    path = public("chinchilla_epoch/svg_extracted_data.csv")
    return read_table(path, "params=Model Size,flops=Training FLOP,loss=loss", drop_largest_losses=5)


def test_the_published_refit() -> None:
    """Besiroglu et al. (2024): the objective of their notebook, or less."""
    found = Regression(Parametric()).fit(chinchilla())
    assert found.objective <= 0.00101827405
    assert found.details["starts"]["agree"] == found.details["starts"]["followed"]


def test_the_published_least_absolute_deviations() -> None:
    """Their parameters are these, to the digits that they print."""
    found = Regression(Parametric(), Criterion("lad")).fit(chinchilla())
    published = {"A": 482.006, "B": 2085.43, "E": 1.81686, "alpha": 0.34781, "beta": 0.36585}
    for name, value in published.items():
        np.testing.assert_allclose(found.parameters[name], value, rtol=2e-5)
    # Least where as many rows as parameters are met exactly.
    left = np.abs(np.log(Regression(Parametric()).loss(found.parameters, chinchilla().values) / chinchilla()["loss"]))
    assert np.sum(left < 1e-9) == 5


@pytest.mark.slow
def test_published_intervals() -> None:
    """The published intervals use 4,000 draws; here 1,000, in less than two minutes on two cores."""
    table, form = chinchilla(), Regression(Parametric())
    began = time.process_time()
    laws = [law for law in bootstrap(form, table, form.fit(table).parameters, 1000, jobs=1) if law]
    assert time.process_time() - began < 2 * 120
    assert len(laws) == 1000
    for name, error, ends in (("alpha", 0.0154, [0.317, 0.373]), ("beta", 0.0206, [0.331, 0.415])):
        drawn = [law[name] for law in laws]
        np.testing.assert_allclose(np.std(drawn), error, rtol=0.12)
        np.testing.assert_allclose(interval(drawn), ends, atol=0.006)


@pytest.mark.parametrize(("name", "published"), [("rpj-open_lm_1b-32.0", 0.7103), ("rpj-open_lm_7b-1.0", 0.7320)])
def test_the_published_errors_of_overtraining(name: str, published: float) -> None:
    """Gadre et al. (2024): fitted to five small runs, the relative error on C4 of a large one, in percent."""
    small = {f"rpj-d={model}-1.0" for model in ("96_l=8_h=4", "512_l=8_h=4", "576_l=24_h=8", "1024_l=24_h=8")}
    with public("gadre_overtraining/runs.csv").open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}

    def table(names: set[str]) -> Table:
        columns = {"params": "N", "tokens": "D", "loss": "loss_c4_val"}
        return Table.of(**{role: [float(rows[n][c]) for n in sorted(names)] for role, c in columns.items()})

    form = Regression(Overtraining(), Criterion("mse"))
    law = form.fit(table(small | {"rpj-d=96_l=8_h=4-16.0"})).parameters
    large = table({name})
    error = np.abs(form.loss(law, large.values) / large["loss"] - 1)[0] * 100
    assert f"{error:.4f}" == f"{published:.4f}"


def test_kaplan_by_its_formula() -> None:
    n, d = grid()["params"], grid()["tokens"]
    law = {"Nc": 8.8e13, "Dc": 5.4e13, "alpha_N": 0.076, "alpha_D": 0.095}
    made = ((law["Nc"] / n) ** (law["alpha_N"] / law["alpha_D"]) + law["Dc"] / d) ** law["alpha_D"]
    found = Regression(Kaplan()).fit(Table.of(params=n, tokens=d, loss=made))
    for name, value in law.items():
        np.testing.assert_allclose(found.parameters[name], value, rtol=1e-4)
    best = Regression(Kaplan()).optimum(law, 1e20)
    others = np.geomspace(best["params"] / 2, best["params"] * 2, 101)
    tried = Regression(Kaplan()).loss(law, {"params": others, "tokens": 1e20 / 6 / others})
    assert best["loss"] <= tried.min() and np.argmin(tried) == 50


@pytest.mark.parametrize("role", ["params", "tokens", "flops"])
def test_power_laws_of_one_quantity(role: str) -> None:
    x = np.geomspace(1e6, 1e9, 9)
    table = Table.of(**{role: x, "loss": (8.8e13 / x) ** 0.076})
    form = form_named("kaplan", table)
    found = list(form.fit(table).parameters.values())
    np.testing.assert_allclose(found, [8.8e13, 0.076], rtol=1e-6)
    assert isinstance(form, Regression) and isinstance(form.curve, Power)


def test_repeated_data_by_their_formula() -> None:
    """Equations 5 to 7, written again; the paper's constants."""
    law = {"E": 1.87, "A": 521.0, "B": 1488.0, "alpha": 0.353, "beta": 0.353, "R_D": 15.39, "R_N": 5.31}
    rows = [(n, u, u * e) for n in (2e7, 1e8, 5e8, 2e9) for u in (1e8, 1e9, 1e10) for e in (1, 3, 10, 40)]
    n, u, d = np.array(rows).T
    g = (law["A"] / law["B"]) ** (1 / 0.706)
    own = np.minimum(n, g * (u * g))  # alpha = beta: N = G (U G)^1
    worth_n = own + own * law["R_N"] * (1 - np.exp(-(n / own - 1) / law["R_N"]))
    worth_d = u + u * law["R_D"] * (1 - np.exp(-(d / u - 1) / law["R_D"]))
    made = law["E"] + law["A"] / worth_n**0.353 + law["B"] / worth_d**0.353
    form = Regression(DataConstrained())
    np.testing.assert_allclose(form.loss(law, {"params": n, "tokens": d, "unique_tokens": u}), made, rtol=1e-12)
    found = form.fit(Table.of(params=n, tokens=d, unique_tokens=u, loss=made)).parameters
    for name, value in law.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-3)
    once = {name: law[name] for name in ("E", "A", "B", "alpha", "beta")}
    fixed = Regression(DataConstrained(), fix=once).fit(Table.of(params=n, tokens=d, unique_tokens=u, loss=made))
    np.testing.assert_allclose([fixed.parameters["R_D"], fixed.parameters["R_N"]], [15.39, 5.31], rtol=1e-5)


def test_broken_by_its_formula() -> None:
    x = np.geomspace(1e2, 1e8, 40)
    made = 0.5 + 3 * x**-0.1 * (1 + (x / 1e5) ** (1 / 0.2)) ** (-0.3 * 0.2)
    form = form_named("broken", Table.of(params=x, loss=made))
    assert isinstance(form, Regression) and isinstance(form.curve, Broken) and form.curve.breaks >= 1
    one = Regression(Broken("params", 1))
    law = {"E": 0.5, "b": 3.0, "c0": 0.1, "c1": 0.3, "d1": 1e5, "f1": 0.2}
    np.testing.assert_allclose(one.loss(law, {"params": x}), made, rtol=1e-12)
    found = one.fit(Table.of(params=x, loss=made)).parameters
    np.testing.assert_allclose(one.loss(found, {"params": x * 10}), one.loss(law, {"params": x * 10}), rtol=1e-3)


CURVES = {
    "parametric": (Parametric(), [0.6, 6, 7, 0.35, 0.4]),
    "kaplan": (Kaplan(), [25, 26, -2.5, -2.3]),
    "power": (Power("tokens"), [25, 0.1]),
    "overtraining": (Overtraining(), [0.6, 6, 7, 0.15]),
    "data_constrained": (DataConstrained(), [0.6, 6.2, 7.3, -1.04, -1.0, 2.7, 1.6]),
    "broken": (Broken("flops", 2), [0.5, 2, 0.1, 0.2, 10.5, -0.5, -0.1, 11.3, 0.2]),
}


@pytest.mark.parametrize("name", CURVES)
def test_derivatives_match_finite_differences(name: str) -> None:
    curve, start = CURVES[name]
    theta, rng = np.array(start), np.random.default_rng(0)
    ranges = {"params": (15, 22), "tokens": (18, 26), "unique_tokens": (17, 25), "flops": (10, 12)}
    points = {role: np.exp(rng.uniform(*ends, 9)) for role, ends in ranges.items()}
    steps = 1e-6 * np.eye(len(theta))
    near = [curve.log_loss(theta + s, points)[0] - curve.log_loss(theta - s, points)[0] for s in steps]
    np.testing.assert_allclose(curve.log_loss(theta, points)[1], np.stack(near, -1) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["huber", "lad", "mse"])
def test_a_known_law_is_recovered_and_lies_in_its_intervals(kind: str) -> None:
    exact = Regression(Parametric(), Criterion(kind)).fit(Table.of(**grid()))
    for name, value in LAW.items():
        np.testing.assert_allclose(exact.parameters[name], value, rtol=1e-3)
    if kind == "lad":
        return
    noisy = study(Regression(Parametric(), Criterion(kind)), Table.of(**grid(size=0.003)), draws=12)
    for name, (low, high) in noisy.intervals().items():
        assert low / 1.3 < LAW[name] < high * 1.3


def test_fixed_and_tied_parameters() -> None:
    table = Table.of(**grid())
    fixed = Regression(Parametric(), fix={"E": 1.7, "alpha": 0.34}).fit(table).parameters
    assert (fixed["E"], fixed["alpha"]) == (pytest.approx(1.7, rel=1e-14), 0.34)
    np.testing.assert_allclose([fixed["A"], fixed["B"], fixed["beta"]], [400, 1200, 0.3], rtol=1e-6)
    tied = Regression(Parametric(), tie=(("alpha", "beta"),)).fit(table).parameters
    assert tied["alpha"] == tied["beta"] and 0.3 < tied["alpha"] < 0.34
    floorless = Regression(Parametric(), fix={"E": 0.0}).fit(table).parameters
    assert floorless["E"] == 0.0


def test_the_optimum_of_a_budget_minimises_the_loss() -> None:
    for curve, law in ((Parametric(), LAW), (Overtraining(), {"E": 1.7, "a": 30.0, "b": 60.0, "eta": 0.16})):
        form = Regression(curve)
        best = form.optimum(law, 1e21)
        np.testing.assert_allclose(6 * best["params"] * best["tokens"], 1e21, rtol=1e-12)
        others = best["params"] * np.array([0.99, 1.01])
        assert np.all(form.loss(law, {"params": others, "tokens": 1e21 / 6 / others}) > best["loss"])


def test_isoflop_profiles() -> None:
    form, a = IsoFLOP(), LAW["beta"] / (LAW["alpha"] + LAW["beta"])
    exact = form.fit(Table.of(**profiles()))
    np.testing.assert_allclose(exact.parameters["params_exponent"], a, atol=0.01)
    np.testing.assert_allclose(exact.parameters["tokens_exponent"], 1 - a, atol=0.01)
    known = Regression(Parametric()).optimum(LAW, 1e20)
    for name, value in form.optimum(exact.parameters, 1e20).items():
        np.testing.assert_allclose(value, known[name], rtol=0.05)
    assert [m["flops"] for m in exact.details["minima"]] == pytest.approx([1e18, 1e19, 1e20, 1e21])
    noisy = study(form, Table.of(**profiles(budgets=6, size=0.002)), draws=25)
    low, high = noisy.intervals()["params_exponent"]
    assert low - 0.02 < a < high + 0.02 and high - low < 0.2
    assert noisy.backtest["largest_absolute_error"] < 0.03


def test_isoflop_minima_at_the_edge_are_dropped_with_a_warning() -> None:
    table = profiles()
    first = table["flops"] == table["flops"][0]
    falling = first & (table["params"] > np.median(table["params"][first]))
    kept = {name: column[~falling] for name, column in table.items()}
    found = IsoFLOP().fit(Table.of(**kept))
    assert any("budget 1e+18" in w and "edge" in w and "row 4" in w for w in found.warnings)
    assert "problem" in found.details["minima"][0] and "problem" not in found.details["minima"][1]


def curves(runs: int = 9) -> Table:
    """Training curves at a constant learning rate: the law at every step."""
    n = np.repeat(np.geomspace(1e6, 3e9, runs), 60)
    d = np.tile(np.geomspace(1e7, 1e12, 60), runs)
    return Table.of(params=n, tokens=d, flops=6 * n * d, loss=loss(n, d), group=[f"{x:.3g}" for x in n])


def test_envelope_of_training_curves() -> None:
    found = Envelope().fit(curves(40))
    a = LAW["beta"] / (LAW["alpha"] + LAW["beta"])
    np.testing.assert_allclose(found.parameters["params_exponent"], a, atol=0.03)
    assert any("constant" in warning for warning in found.warnings)
    drawn = study(Envelope(), curves(20), draws=12)
    assert drawn.intervals()["params_exponent"][0] < a < drawn.intervals()["params_exponent"][1]
    with pytest.raises(UserError, match="group=COLUMN"):
        Envelope().fit(Table.of(**profiles()))


def rates() -> dict[str, np.ndarray]:
    """Learning rates and batches around the best ones of the step law's form, for every N and D."""
    rows = [(n, d, a, b) for n in (1e7, 1e8, 1e9) for d in (1e9, 1e10, 1e11) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    n, d, a, b = np.array(rows).T
    rate, batch = 1.79 * n**-0.713 * d**0.307, 0.58 * d**0.571
    left, right = a + 0.1, b - 0.2
    made = 2.0 * np.exp(0.02 * left**2 + 0.01 * right**2 + 0.01 * left * right)
    columns = {"learning_rate": rate * np.exp(left), "batch_size": batch * np.exp(right)}
    return {"params": n, "tokens": d, "loss": made} | columns


def test_learning_rates_and_batches() -> None:
    """The constants of Li et al. (2025), from which the losses were made."""
    form, table = LearningRate(), Table.of(**rates())
    found = study(form, table, draws=5)
    at = {"params": 3e9, "tokens": 2e12}
    predicted = found.predict(at)
    np.testing.assert_allclose(predicted["learning_rate"], 1.79 * 3e9**-0.713 * 2e12**0.307, rtol=1e-6)
    np.testing.assert_allclose(predicted["batch_size"], 0.58 * 2e12**0.571, rtol=1e-6)
    low, high = predicted["learning_rate_interval"]
    np.testing.assert_allclose([low, high], predicted["learning_rate"], rtol=1e-6)
    assert "warning" in predicted and len(found.fitted.details["minima"]) == 9
    with pytest.raises(UserError, match="best learning rate only"):
        form.loss(found.fitted.parameters, table.values)


@pytest.mark.slow
def test_draws_do_not_depend_on_the_number_of_processes() -> None:
    table, form = Table.of(**grid(4, 4, size=0.01)), Regression(Power("params"), Criterion("mse"))
    start = form.fit(table).parameters
    alone = bootstrap(form, table, start, 41, seed=3, jobs=1)
    assert bootstrap(form, table, start, 41, seed=3, jobs=2) == alone
    assert bootstrap(form, table, start, 41, seed=4, jobs=1) != alone


def test_bootstrap_draws_whole_runs() -> None:
    table = Table.of(params=[1.0, 1, 2, 2, 3, 3], loss=[1.0] * 6, group=list("aabbcc"))
    for seed in range(5):
        drawn = Regression(Power("params")).resample(table, np.random.default_rng(seed))
        assert len(drawn) == 6 and np.all(drawn["params"][::2] == drawn["params"][1::2])


def test_intervals_are_percentiles() -> None:
    assert interval(list(range(1001))) == pytest.approx([25, 975])
    assert noise(3, 0.0).tolist() == [1.0, 1.0, 1.0]
