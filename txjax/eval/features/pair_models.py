"""Models of two towers, as evaluators call them: for images, for texts, or for both."""

from typing import Any

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.evaluator import outline
from txjax.nn import PairFeatures
from txjax.objectives import Objective
from txjax.types import Batch, PyTree


def pair_features(model: Any, objective: Objective, variables: PyTree, batch: Batch) -> PairFeatures:
    """The features of a batch's images, texts or both, without dropout."""
    return model.apply(variables, **objective.inputs(model, batch), train=False)  # type: ignore[no-any-return]


def check_pair_model(model: Any, objective: Objective, data: Dataset) -> None:
    """Raises UserError unless the model gives the features of the images or texts of a data set."""
    output, _ = outline(model, objective, data)
    if not isinstance(output, PairFeatures):
        expected = "a model that returns PairFeatures, such as TwoTowers"
        raise UserError("config.model", expected, type(model).__name__)
