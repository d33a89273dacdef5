"""Layers of several kinds with parameters of their own shapes; attention with decomposed relative positions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.axes import Axes
from txjax.models.hierarchical import StageLayers
from txjax.models.vision.sam import DecomposedAttention, windows_then_all
from txjax.nn import Block, Grid, KernelInit, LayerContext, PeriodicStack, PreNormWithoutFinal
from txjax.optim.layer_decay import steps_below_head
from txjax.types import UserError, flat_paths

from helpers.arrays import call, numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "layers of a period equal stacks of single ones, their depths and decays; decomposed positions by their equation",
)

GRID = Grid(3, 5)


def layers(depth: int) -> StageLayers:
    attention = windows_then_all(2, window=2, side=3)
    parts = {"mixer": attention, "block": PreNormWithoutFinal(), "stack": PeriodicStack(unroll=1)}
    return StageLayers(width=12, depth=depth, heads=3, **parts)


def test_periods_come_after_each_other():
    x = numbers(2, 15, 12)
    given = variables(layers(4), x, GRID, False)
    stacked = given["params"]["layers"]["block"]
    assert stacked["kind_0"]["attention"]["rows"].shape == (2, 3, 4)
    assert stacked["kind_1"]["attention"]["rows"].shape == (2, 5, 4)

    def half(number, given, x):
        return layers(2).apply(jax.tree.map(lambda leaf: leaf[number : number + 1], given), x, GRID, False)

    def whole(given, x):
        return layers(4).apply(given, x, GRID, False), half(1, given, half(0, given, x))

    np.testing.assert_allclose(*call(jax.jit(whole), given, x), rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match=r"config.model.depth: expected a multiple of the 2 kinds of layers, got 3"):
        shapes(layers(3), x, GRID, False)


class Marked(Block):
    """2x + the fraction of the depth."""

    def __call__(self, x, context, depth_fraction=1.0):
        return 2 * x + depth_fraction


@pytest.mark.parametrize("fractions", [None, (0.25, 0.75)])
def test_fractions_of_the_depth_rise_through_the_kinds(fractions):
    stack = PeriodicStack(block=(Marked(), Marked(), Marked()), depth=6, fractions=fractions)
    found = jax.jit(stack.apply)({}, jnp.zeros((1, 1, 1)), LayerContext())
    wanted = 0.0
    for fraction in np.linspace(*(fractions or (0, 1)), 6):
        wanted = 2 * wanted + fraction
    assert float(found[0, 0, 0]) == pytest.approx(wanted, rel=1e-6)


def test_decay_numbers_every_layer_of_a_period():
    made = flat_paths(shapes(layers(4), numbers(1, 15, 12), GRID, False)["params"])
    axes = {path: Axes(("layers", *("x",) * (leaf.ndim - 1))) for path, leaf in made.items()}
    steps = steps_below_head([list(made)], axes, {path: leaf.shape for path, leaf in made.items()})
    for kind, wanted in (("kind_0", [4, 2]), ("kind_1", [3, 1])):
        assert steps[f"layers/block/{kind}/mlp/up/bias"].ravel().tolist() == wanted


def test_decomposed_positions_by_their_equation():
    """On a grid of 2 x 3 with tables for 2 x 2: the columns' is resized."""
    attention = DecomposedAttention(side=2, heads=2, kernel_init=KernelInit())
    x, context = numbers(2, 6, 8), LayerContext(grid=Grid(2, 3))
    given = variables(attention, x, context)
    params = given["params"]
    query, key, value = (
        np.einsum("bld,dhk->bhlk", x, params[name]["kernel"]) + params[name]["bias"][:, None]
        for name in ("query", "key", "value")
    )
    found = ((np.arange(5) + 0.5) * 3 / 5 - 0.5).clip(0, 2)
    columns = np.stack([np.interp(found, np.arange(3), channel) for channel in params["columns"].T], -1)
    scores = np.einsum("bhqk,bhsk->bhqs", query, key) / 2
    for q in range(6):
        for s in range(6):
            vector = params["rows"][q // 3 - s // 3 + 1] + columns[q % 3 - s % 3 + 2]
            scores[:, :, q, s] += query[:, :, q] @ vector
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    heads = np.einsum("bhqs,bhsk->bqhk", weights / weights.sum(-1, keepdims=True), value)
    wanted = np.einsum("bqhk,hkd->bqd", heads, params["out"]["kernel"]) + params["out"]["bias"]
    found = call(jax.jit(lambda given, x: attention.apply(given, x, context)), given, x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(UserError, match="expected Attention\\(\\) for these tokens"):
        shapes(attention, x, LayerContext(grid=Grid(1, 5, prefix=1)))
