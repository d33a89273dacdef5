"""Exponentials and powers that overflow to a large finite number."""

import numpy as np
from jaxtyping import Float

LARGEST = 700.0  # of float64 exp(709.8) is infinite


def bounded_exp(logs: Float[np.ndarray, "*n"] | float) -> Float[np.ndarray, "*n"]:
    """exp(logs), at most exp(700), about 1e304."""
    return np.exp(np.minimum(logs, LARGEST))


def power_law(coefficient: float, x: Float[np.ndarray, "*n"] | float, exponent: float) -> Float[np.ndarray, "*n"]:
    """coefficient * x^exponent of positive x and a coefficient of at least 0, at most exp(700)."""
    return bounded_exp(np.log(coefficient) + exponent * np.log(x)) if coefficient else np.zeros(np.shape(x))


def best_run(log_params: float, flops: float) -> dict[str, float]:
    """N and D = C / (6 N) of a budget, by the logarithm of N; neither is less than one."""
    params = float(np.exp(np.clip(log_params, 0.0, max(np.log(flops / 6), 0.0))))
    return {"params": params, "tokens": flops / 6 / params}
