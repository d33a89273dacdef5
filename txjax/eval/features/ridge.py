"""Ridge regression from features to classes, in closed form."""

from typing import Any

import numpy as np
from jaxtyping import Float, Int

POWERS_OF_TWO = tuple(2.0**power for power in range(-10, 21))


def ridge(
    features: Float[np.ndarray, "N D"], labels: Int[np.ndarray, "N"], classes: int, penalties: tuple[float, ...]
) -> Any:
    """Ridge regression of {-1, 1}^classes on standardised features, fitted: `predict` gives [N classes].

    W and b minimise |X W + b - Y|^2 + penalty |W|^2, with the penalty of the smallest squared error of the examples
    when each is left out, in closed form too (scikit-learn's RidgeCV).
    """
    from sklearn.linear_model import RidgeCV  # slow to import, and an extra
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    targets = 2.0 * (labels[:, None] == np.arange(classes)) - 1
    return make_pipeline(StandardScaler(), RidgeCV(list(penalties))).fit(features, targets)
