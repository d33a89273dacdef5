"""Fields of an experiment that follow from its other ones: the data of its evaluations, the classes of its head."""

import dataclasses
from typing import Any

from txjax.checks import Checks
from txjax.data import Dataset
from txjax.data.loading.default_eval_data import fill_default_fields, follow_training_data
from txjax.errors import UserError
from txjax.eval.evaluator import Evaluator


def resolve(experiment: Any, checks: Checks) -> Any:
    """The experiment with the data of its evaluations and the number of its head's classes filled in.

    An evaluation that can't be filled in is left out, and its errors are added to `checks`.
    """
    data: Any = fill_default_fields(experiment.data)
    experiment = dataclasses.replace(experiment, data=data, model=_with_classes(experiment.model, data))
    evals = {}
    for name, evaluator in experiment.evals.items():
        where = f"config.evals.{name}"
        if not checks.has_error(where):
            evals[name] = checks.run(_with_data, where, evaluator, experiment)
    return dataclasses.replace(
        experiment, evals={name: evaluator for name, evaluator in evals.items() if evaluator is not None}
    )


def _with_classes(model: Any, data: Dataset) -> Any:
    """The model whose head has as many classes as the data, if it has no number of its own."""
    head: Any = getattr(model, "head", None)
    classes = getattr(data, "classes", None)
    if classes is None or getattr(head, "classes", classes) is not None:
        return model
    return model.clone(head=dataclasses.replace(head, classes=classes))


def _with_data(where: str, evaluator: Evaluator, experiment: Any) -> Evaluator:
    data_sets: dict[str, Any] = {}
    try:
        _, _, train = evaluator.part(experiment.model, experiment.objective, experiment.data)
    except UserError as error:
        raise error.with_path(where, "eval") from None
    for field in dataclasses.fields(evaluator):
        data = getattr(evaluator, field.name)
        if isinstance(data, Dataset):
            try:
                data_sets[field.name] = fill_default_fields(follow_training_data(data, train))
            except UserError as error:
                raise error.with_path(f"{where}.{field.name}", "data") from None
    return dataclasses.replace(evaluator, **data_sets)
