"""The bootstrap over the examples of a test set (Efron 1979): how much a score depends on which examples are in it."""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float, Int

from txjax.eval.results import Rows

Rescore = Callable[[Rows], dict[str, float]]

RESAMPLES = 1000
TAILS = 0.025, 0.975


def resamples(count: int) -> Iterator[Int[np.ndarray, "N"]]:
    """RESAMPLES times `count` indices below `count`, drawn with replacement; the same at every call, so that the draws
    of two models on the same examples are pairs."""
    rng = np.random.default_rng(0)
    for _ in range(RESAMPLES):
        yield rng.integers(0, count, count)


def draws(rescore: Rescore, rows: Rows) -> dict[str, Float[np.ndarray, "draws"]]:
    """The scores of each resample, by name; of a score that some resample doesn't have, or not as a finite number,
    there are none."""
    if not len(rows["id"]):
        return {}
    resampled = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a resample may lack a class
        for chosen in resamples(len(rows["id"])):
            resampled.append(rescore({name: column[chosen] for name, column in rows.items()}))
    names = [name for name in resampled[0] if all(name in scores for scores in resampled)]
    columns = {name: np.array([scores[name] for scores in resampled], np.float64) for name in names}
    return {name: column for name, column in columns.items() if np.isfinite(column).all()}


def interval(values: Float[np.ndarray, "draws"]) -> tuple[float, float]:
    """The middle 95% of a score's draws: the percentile interval."""
    low, high = np.quantile(values, TAILS).tolist()
    return low, high


def intervals(rescore: Rescore, rows: Rows) -> dict[str, tuple[float, float]]:
    """95% intervals of the scores by name."""
    return {name: interval(values) for name, values in draws(rescore, rows).items()}
