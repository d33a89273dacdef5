"""The forms by the names that `--form` accepts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txjax.errors import UserError, near_misses
from txjax.ranking import best_key
from txjax.scaling.criterion import Criterion
from txjax.scaling.curves import Broken, DataConstrained, Kaplan, Overtraining, Parametric, Power
from txjax.scaling.envelope import Envelope
from txjax.scaling.form import Form, Parameters
from txjax.scaling.isoflop import IsoFLOP
from txjax.scaling.lr_law import LearningRate
from txjax.scaling.minima import BETWEEN
from txjax.scaling.regression import Regression
from txjax.scaling.table import Table

CURVES = ("parametric", "kaplan", "overtraining", "data_constrained", "broken")
MINIMA_FORMS: dict[str, type[Form]] = {"isoflop": IsoFLOP, "envelope": Envelope, "learning_rate": LearningRate}
FORMS = (*CURVES, *MINIMA_FORMS)
MOST_BREAKS = 2


def form_named(
    name: str,
    table: Table,
    loss: str | None = None,
    delta: float = 1e-3,
    fix: Mapping[str, float] | None = None,
    tie: tuple[tuple[str, str], ...] = (),
    breaks: int | None = None,
    minima: str | None = None,
    edges: tuple[str, ...] = (),
) -> Form:
    """The form of this name for a table of these columns.

    Args:
      name: one of FORMS.
      table: the data to fit.
      loss: the criterion. If None, mse for over-training, as in the paper, else huber.
      delta: of huber.
      fix, tie: see `Regression`.
      breaks: of a broken law. If None, the number that predicts the largest runs best.
      minima: how isoflop finds them, by parabola or by akima. If None, by akima if the parabola has none.
      edges: see `IsoFLOP`.

    Raises:
      UserError: no such form, or flags that it does not use.
    """
    if name not in FORMS:
        raise UserError("--form", "one of " + ", ".join(FORMS), name, near_misses(name, FORMS))
    if name != "isoflop":
        for field, option in (("--minima", minima), ("--keep_edges", edges)):
            if option:
                raise UserError(field, "--form=isoflop beside it", name)
    if name in MINIMA_FORMS:
        for field, value in (("--loss", loss), ("--fix", fix), ("--tie", tie), ("--breaks", breaks)):
            if value:
                raise UserError(field, f"nothing: {name} is fitted by least squares of logarithms", value)
        if name == "isoflop":
            return IsoFLOP((minima,) if minima else BETWEEN, edges)
        return MINIMA_FORMS[name]()
    if delta <= 0:
        raise UserError("--delta", "a number above 0", delta)
    if breaks is not None and name != "broken":
        raise UserError("--breaks", "--form=broken beside it", name)
    settings: dict[str, Any] = {
        "criterion": Criterion(loss or ("mse" if name == "overtraining" else "huber"), delta),
        "fix": dict(fix or {}),
        "tie": tie,
    }
    if name == "broken":
        role = next((role for role in ("flops", "params", "tokens") if role in table), "flops")
        if breaks is None:
            breaks = _best_breaks(role, table, settings)
        return Regression(Broken(role, breaks), **settings)
    if name == "kaplan" and not {"params", "tokens"} <= set(table.values):
        role = next((role for role in ("params", "tokens", "flops") if role in table), "params")
        return Regression(Power(role), **settings)
    curve = {
        "parametric": Parametric,
        "kaplan": Kaplan,
        "overtraining": Overtraining,
        "data_constrained": DataConstrained,
    }[name]()
    return Regression(curve, **settings)


def law_named(name: str, parameters: Parameters, needs: Sequence[str]) -> Form:
    """The form of a law with these parameters and needs, for predictions."""
    breaks = (len(parameters) - 3) // 3 if name == "broken" else None
    return form_named(name, Table.of(**{role: [1.0] for role in needs}), breaks=breaks)


def _best_breaks(role: str, table: Table, settings: Mapping[str, Any]) -> int:
    """The number of breaks for which a law fitted to the smaller runs predicts the larger ones best."""
    table.need((role,), "broken")
    errors = {}
    for breaks in range(MOST_BREAKS + 1):
        form = Regression(Broken(role, breaks), **settings)
        order = np.argsort(table[role], kind="stable")
        cut = len(order) - max(1, len(order) // 5)
        if cut <= len(form.curve.parameters):
            break
        try:
            law = form.fit(table.take(order[:cut]), start=None).parameters
        except UserError:
            continue
        rest = table.take(order[cut:])
        errors[breaks] = float(np.mean(np.abs(np.log(rest["loss"] / form.loss(law, rest.values)))))
    return best_key(errors) or 0
