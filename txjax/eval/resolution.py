"""Fields of an experiment that follow from its other ones: the data sets of its evaluations."""

import dataclasses
from typing import Any, TypeVar

from txjax.checks import Checks
from txjax.data import Dataset
from txjax.data.following import following
from txjax.eval.evaluator import Evaluator
from txjax.types import UserError

E = TypeVar("E")


def resolve(experiment: E, checks: Checks) -> E:
    """The experiment with the data sets of its evaluations filled in.

    An evaluation that can't be filled in is left out, and its errors are added to `checks`.
    """
    config: Any = experiment
    evals = {}
    for name, evaluator in config.evals.items():
        where = f"config.evals.{name}"
        if not checks.has_error(where):
            evals[name] = checks.run(_with_data, where, evaluator, config)
    return dataclasses.replace(config, evals={name: each for name, each in evals.items() if each is not None})


def _with_data(where: str, evaluator: Evaluator, experiment: Any) -> Evaluator:
    data_sets: dict[str, Any] = {}
    try:
        _, _, train = evaluator.part(experiment.model, experiment.objective, experiment.data)
    except UserError as error:
        raise error.inside(where, "eval") from None
    for field in dataclasses.fields(evaluator):
        data = getattr(evaluator, field.name)
        if isinstance(data, Dataset):
            try:
                data_sets[field.name] = following(data, train)
            except UserError as error:
                raise error.inside(f"{where}.{field.name}", "data") from None
    return dataclasses.replace(evaluator, **data_sets)
