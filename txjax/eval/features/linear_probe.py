"""A linear probe: logistic regression on frozen features."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from txjax.data import Dataset
from txjax.errors import require
from txjax.eval.evaluator import Context
from txjax.eval.features.frozen_features import Frozen
from txjax.eval.results import GIVEN, ID
from txjax.objectives import Objective
from txjax.types import PyTree, config_field


@dataclasses.dataclass
class LinearProbe(Frozen):
    """Logistic regression on standardized features, fitted by scikit-learn to the training examples.

    It minimizes the sum of the examples' cross entropies and penalty / 2 * (the sum of the squared weights).

    Scores: `accuracy`, and `train_accuracy` on the training examples.

    Attributes:
      penalty: the L2 penalty above.
      max_iterations: iterations of L-BFGS; scikit-learn warns if it did not converge.
    """

    penalty: float = config_field(1.0, above=0)
    max_iterations: int = config_field(1000, at_least=1)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("sklearn", "scikit-learn", "eval")
        super().check(model, objective, train)

    def score(
        self, context: Context, variables: PyTree, features: Float[np.ndarray, "N D"], labels: Int[np.ndarray, "N"]
    ) -> dict[str, float]:
        from sklearn.linear_model import LogisticRegression  # slow to import, and an extra
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        probe = make_pipeline(StandardScaler(), LogisticRegression(C=1 / self.penalty, max_iter=self.max_iterations))
        probe.fit(features, labels)
        test = self.rows(context, variables, context.source, self.max_batches)
        rows = {ID: test[ID], GIVEN: test[GIVEN], "accuracy": probe.predict(test["features"]) == test[GIVEN]}
        return self.keep_and_rescore(context, rows) | {"train_accuracy": float(probe.score(features, labels))}
