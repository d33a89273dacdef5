"""Boxes against their formulas by counting pixels, and the matching against scipy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from txjax.objectives.boxes import area, assign, centre_boxes, corners, generalised_iou, iou

SIDE = 12


def drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    """Boxes with corners on a grid of SIDE x SIDE pixels, int [count 4]."""
    first, second = rng.integers(0, SIDE, (count, 2)), rng.integers(0, SIDE, (count, 2))
    return np.concatenate([np.minimum(first, second), np.maximum(first, second) + 1], -1)


def pixels(box: np.ndarray) -> np.ndarray:
    mask = np.zeros((SIDE, SIDE), bool)
    mask[box[0] : box[2], box[1] : box[3]] = True
    return mask


def test_ratios_of_areas_are_those_of_counted_pixels():
    rng = np.random.default_rng(0)
    a, b = drawn(rng, 200), drawn(rng, 200)
    expected, general = [], []
    for one, other in zip(a, b, strict=True):
        both, either = (pixels(one) & pixels(other)).sum(), (pixels(one) | pixels(other)).sum()
        around = pixels(np.array([*np.minimum(one[:2], other[:2]), *np.maximum(one[2:], other[2:])])).sum()
        expected.append(both / either)
        general.append(both / either - (around - either) / around)
    x, y = (jnp.asarray(boxes / SIDE, jnp.float32) for boxes in (a, b))
    np.testing.assert_allclose(iou(x, y), expected, atol=1e-5)
    np.testing.assert_allclose(generalised_iou(x, y), general, atol=1e-5)
    np.testing.assert_allclose(area(x), [pixels(box).sum() / SIDE**2 for box in a], atol=1e-6)
    np.testing.assert_allclose(corners(centre_boxes(x)), x, atol=1e-6)
    np.testing.assert_allclose(generalised_iou(x, x), 1.0, atol=1e-5)


def test_boxes_without_area_have_finite_gradients():
    point, inverted, box = jnp.array([0.5] * 4), jnp.array([0.6, 0.6, 0.4, 0.4]), jnp.array([0.1, 0.1, 0.3, 0.3])
    for a in (point, inverted):
        for b in (point, box):
            for ratio in (iou, generalised_iou):
                value, gradient = jax.value_and_grad(ratio)(a, b)
                assert np.isfinite(value) and np.isfinite(gradient).all() and value <= 0


@pytest.mark.parametrize(("objects", "queries"), [(1, 1), (3, 8), (8, 8), (20, 100)])
def test_matchings_cost_as_little_as_scipys(objects, queries):
    rng = np.random.default_rng(objects)
    costs = rng.normal(size=(16, objects, queries)).astype(np.float32)
    costs[8:] = costs[8:].round()  # with ties
    real = rng.integers(0, objects + 1, 16)[:, None] > np.arange(objects)
    found = np.asarray(jax.jit(assign)(jnp.asarray(costs), jnp.asarray(real)))
    for cost, row, count in zip(costs, found, real.sum(1), strict=True):
        assert len(set(row)) == objects and row.min() >= 0 and row.max() < queries
        best = cost[:count][linear_sum_assignment(cost[:count])].sum()
        np.testing.assert_allclose(cost[np.arange(count), row[:count]].sum(), best, rtol=1e-5, atol=1e-5)


def test_costs_that_are_not_finite_are_avoided():
    costs = np.random.default_rng(0).normal(size=(1, 2, 4)).astype(np.float32)
    costs[0, 0, :3], costs[0, 1, 3] = np.nan, np.inf
    found = assign(jnp.asarray(costs), jnp.ones((1, 2), bool))[0]
    assert found[0] == 3 and found[1] == costs[0, 1, :3].argmin()
    assert len(set(assign(jnp.full((1, 2, 4), jnp.nan), jnp.ones((1, 2), bool))[0].tolist())) == 2


def test_no_gradient_flows_through_a_matching_and_too_few_queries_are_refused():
    costs = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3, 4)), jnp.float32)

    def matched(costs):
        chosen = assign(costs, jnp.ones((2, 3), bool))
        return jnp.take_along_axis(costs, chosen[..., None], -1).sum()

    gradient = jax.grad(matched)(costs)
    assert set(np.unique(gradient)) == {0.0, 1.0} and gradient.sum() == 6
    with pytest.raises(AssertionError, match="more objects than queries"):
        assign(costs.swapaxes(1, 2), jnp.ones((2, 4), bool))
