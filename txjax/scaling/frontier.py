"""The laws of the best run of every budget: N* = k C^a and D* = k' C^b, and the loss there."""

import numpy as np

from txjax.errors import UserError
from txjax.scaling.bounded import bounded_exp, power_law
from txjax.scaling.criterion import Criterion
from txjax.scaling.curves import Broken, Power
from txjax.scaling.form import Form, Parameters
from txjax.scaling.regression import Regression
from txjax.scaling.table import Points, Table


class Frontier(Form):
    """The common base of approaches 1 and 2: their parameters, and predictions by budget.

    L*(C) = loss_floor + loss_coefficient C^-loss_exponent, without the floor if there are fewer than four budgets.
    """

    def loss(self, parameters: Parameters, points: Points) -> np.ndarray:
        if "flops" not in points or "params" in points or "tokens" in points:
            raise UserError("--predict", f"flops=NUMBER alone: {self.name} predicts the best run of a budget only")
        above = power_law(parameters["loss_coefficient"], points["flops"], -parameters["loss_exponent"])
        return parameters["loss_floor"] + above

    def optimum(self, parameters: Parameters, flops: float) -> dict[str, float]:
        best = {
            role: float(power_law(parameters[f"{role}_coefficient"], flops, parameters[f"{role}_exponent"]))
            for role in ("params", "tokens")
        }
        return best | {"loss": float(self.loss(parameters, {"flops": np.array([flops])})[0])}


def power_laws(flops: np.ndarray, params: np.ndarray, tokens: np.ndarray) -> dict[str, float]:
    """Least squares of log N and log D on log C."""
    laws: dict[str, float] = {}
    for name, values in (("params", params), ("tokens", tokens)):
        exponent, constant = np.polyfit(np.log(flops), np.log(values), 1)
        laws |= {f"{name}_exponent": float(exponent), f"{name}_coefficient": float(bounded_exp(constant))}
    return laws


def loss_law(flops: np.ndarray, loss: np.ndarray) -> dict[str, float]:
    """The law of the best loss, by least squares on its logarithm; with a floor if there are at least four budgets."""
    table = Table.of(flops=flops, loss=loss)
    squares = Criterion("mse")
    if len(np.unique(flops)) >= 4:
        fitted = Regression(Broken("flops", 0), squares).fit(table, start={"E": loss.min() / 2, "b": 1.0, "c0": 0.1})
        floor, coefficient, exponent = (fitted.parameters[name] for name in ("E", "b", "c0"))
    else:
        fitted = Regression(Power("flops"), squares).fit(table, start={"Cc": 1.0, "alpha_C": 0.1})
        floor = 0.0
        exponent = fitted.parameters["alpha_C"]
        coefficient = float(bounded_exp(np.mean(np.log(loss) + exponent * np.log(flops))))  # Cc^alpha_C
    return {"loss_floor": floor, "loss_coefficient": coefficient, "loss_exponent": exponent}
