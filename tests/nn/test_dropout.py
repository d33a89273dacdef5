"""Dropout inside layers: units are zero with the probability rate, else over 1 - rate (Srivastava et al. 2014)."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import MLP, Attention, GatedMLP, KernelInit, LayerContext

from helpers.arrays import numbers, variables

RATE = 0.3
X = jnp.asarray(numbers(4, 16, 8))
DRAWN: dict[str, Any] = {"kernel_init": KernelInit(), "dropout": RATE}


@pytest.mark.parametrize(
    ("module", "argument"),
    [
        (MLP(**DRAWN), lambda train: LayerContext(train=train)),
        (GatedMLP(**DRAWN), lambda train: LayerContext(train=train)),
        (Attention(heads=2, **DRAWN), lambda train: LayerContext(train=train)),
    ],
    ids=["hidden layer", "gated hidden layer", "attention weights"],
)
def test_inside_a_layer(module: Any, argument: Any) -> None:
    weights = variables(module, X, argument(False))

    def dropped(rate: float, seed: int = 0) -> np.ndarray:
        """The output of the dropout layer."""
        rngs = {"dropout": jax.random.key(seed, impl="rbg")}
        found = lambda m, _: isinstance(m, nn.Dropout)  # noqa: E731
        how = {"rngs": rngs, "capture_intermediates": found, "mutable": ["intermediates"]}
        _, state = module.clone(dropout=rate).apply(weights, X, argument(True), **how)
        (leaf,) = jax.tree.leaves(state)
        return np.asarray(leaf)

    whole, some = dropped(1e-9), dropped(RATE)
    kept = some != 0
    np.testing.assert_allclose(some, np.where(kept, whole / (1 - RATE), 0), rtol=1e-6)
    size = (whole != 0).sum()
    assert abs(kept.sum() / size - (1 - RATE)) < 4 * (RATE * (1 - RATE) / size) ** 0.5
    assert ((dropped(RATE, 1) != 0) != kept).any()
