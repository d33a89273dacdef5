"""A formula of the loss with its derivatives, in coordinates without bounds."""

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
from scipy.optimize import nnls

from txjax.errors import UserError
from txjax.scaling.form import Parameters
from txjax.scaling.table import Points

FAR = 100.0  # of the logarithm of an exponent or a scale: beyond, it is 0 or infinity to the last bit of the law
_LEAST = 1e-4  # the starting share of the loss of a term that the data alone would set to zero


class Curve:
    """A formula of the loss. Parameters that are positive are fitted as their logarithms.

    Attributes:
      name: the value of `--form`.
      needs: roles that it reads.
      parameters: names, in the order of theta.
      positive: parameters that are fitted as their logarithms.
      linear: whether residuals are of the loss, not of its logarithm.
    """

    name: str
    needs: tuple[str, ...]
    parameters: tuple[str, ...]
    positive: tuple[str, ...]
    linear = False

    def log_loss(self, theta: np.ndarray, points: Points) -> tuple[np.ndarray, np.ndarray]:
        """log L [n] at these points and its derivatives by theta [n p]."""
        raise NotImplementedError

    def starts(self, points: Points) -> Iterator[np.ndarray]:
        """Starting values of theta. `points` include the loss."""
        raise NotImplementedError

    def optimum(self, parameters: Parameters, flops: float) -> dict[str, float] | None:
        """The best N and D of a budget in closed form. If None, it is searched numerically."""
        return None

    def theta(self, parameters: Parameters) -> np.ndarray:
        """The parameters as theta [p]. Raises UserError if one is missing or out of range."""
        for name in self.parameters:
            if name not in parameters:
                raise UserError("parameters", f"{name} of {self.name}", ", ".join(parameters))
        with np.errstate(divide="ignore"):
            return np.array([self.coordinate(name, parameters[name]) for name in self.parameters])

    def coordinate(self, name: str, value: float) -> float:
        """One parameter as an entry of theta."""
        if name in self.positive and value < 0:
            raise UserError(name, "a number of at least 0", value)
        return float(np.log(value)) if name in self.positive else value

    def values(self, theta: np.ndarray) -> dict[str, float]:
        """The parameters of a theta."""
        with np.errstate(over="ignore"):  # an unidentified parameter may have any value
            exact = [np.exp(x) if n in self.positive else x for n, x in zip(self.parameters, theta, strict=True)]
        return {name: float(value) for name, value in zip(self.parameters, exact, strict=True)}


def sum_of_exponentials(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log of the sum over the last axis [n] of exp(logs [n k]), and each term's share [n k]."""
    largest = logs.max(axis=-1, keepdims=True)
    parts = np.exp(logs - largest)
    total = parts.sum(axis=-1, keepdims=True)
    return (largest + np.log(total))[:, 0], parts / total


def grid(*axes: Iterable[float]) -> Iterator[tuple[float, ...]]:
    return itertools.product(*axes)


def coefficients(terms: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Solves for log c [k] in the loss [n] = terms [n k] @ c with the least relative squared error and c > 0.

    The variable projection of a sum of terms whose exponents are given (Golub and Pereyra 1973).
    """
    sizes = terms.max(axis=0)
    scaled, _ = nnls(terms / sizes / loss[:, None], np.ones_like(loss))
    return np.log(np.maximum(scaled, _LEAST * loss.min())) - np.log(sizes)
