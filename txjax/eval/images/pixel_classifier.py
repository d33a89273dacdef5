"""A classifier of small pictures, which generated ones are shown to."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from txjax.errors import require
from txjax.eval.features.ridge import POWERS_OF_TWO, ridge


@dataclasses.dataclass
class PixelClassifier:
    """The class of an image by ridge regression on its pixels, for small pictures.

    Attributes:
      penalties: the penalties to choose from.
    """

    penalties: tuple[float, ...] = POWERS_OF_TWO

    def check(self) -> None:
        """Raises UserError without scikit-learn."""
        require("sklearn", "scikit-learn", "eval.classifier")

    def fit(self, images: Float[np.ndarray, "N H W C"], labels: Int[np.ndarray, "N"], classes: int) -> Any:
        """The function from images [N H W C] to their classes [N], int64."""
        fitted = ridge(_flat(images), labels, classes, self.penalties)
        return lambda images: fitted.predict(_flat(images)).argmax(-1)


def _flat(images: Float[np.ndarray, "N H W C"]) -> Float[np.ndarray, "N D"]:
    return images.reshape(len(images), -1).astype(np.float64)
