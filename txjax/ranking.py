"""Choice of the best score: one that is not finite is never the best."""

import math
from collections.abc import Mapping
from typing import TypeVar

Key = TypeVar("Key")


def best_key(scores: Mapping[Key, float], mode: str = "min") -> Key | None:
    """The key of the best finite score, of equal ones the first. None if no score is finite.

    A comparison with NaN is false, so `min` and `max` of scores return NaN or not by their order.

    Args:
      scores: a score for each key, in the order in which equal ones are preferred.
      mode: "min" if the smallest score is the best, "max" if the largest is.
    """
    finite = {key: score for key, score in scores.items() if math.isfinite(score)}
    choose = {"min": min, "max": max}[mode]
    return choose(finite, key=finite.__getitem__) if finite else None
