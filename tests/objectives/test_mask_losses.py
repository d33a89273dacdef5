"""Focal and dice loss and IoU of masks by their formulas."""

import jax
import numpy as np
import pytest

from txjax.objectives.mask_losses import dice, focal, mask_iou

from helpers.arrays import call, numbers

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "focal and dice loss, clicks, rounds of prompts by their formulas; IoU after each click",
)


def test_by_their_formulas():
    logits, target = 3 * numbers(2, 3, 5, 4), numbers(2, 3, 5, 4, seed=1) > 0.3
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    right, share = np.where(target, p, 1 - p), np.where(target, 0.25, 0.75)
    np.testing.assert_allclose(
        call(focal, logits, target), (-share * (1 - right) ** 2 * np.log(right)).mean((2, 3)), rtol=1e-5
    )
    wanted = 1 - (2 * (p * target).sum((2, 3)) + 1) / (p.sum((2, 3)) + target.sum((2, 3)) + 1)
    np.testing.assert_allclose(call(dice, logits, target), wanted, rtol=1e-5)
    inside = logits > 0
    wanted = (inside & target).sum((2, 3)) / (inside | target).sum((2, 3))
    np.testing.assert_allclose(call(mask_iou, inside, target), wanted, rtol=1e-6)


def test_nothing_and_sure_logits_are_finite():
    nothing = np.zeros((1, 4, 4), bool)
    for value in (-1e4, 0.0, 1e4):
        logits = np.full((1, 4, 4), value, np.float32)
        for loss in (focal, dice):
            gradient = call(jax.grad(lambda x, y, loss=loss: loss(x, y).sum()), logits, nothing)
            assert np.isfinite(gradient).all() and np.isfinite(call(loss, logits, nothing)).all()
    assert call(mask_iou, nothing, nothing).tolist() == [0.0]
