"""The pipeline against one loop over the layers, with contexts, dropout and auxiliary outputs of each example."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_stack import parts

from txjax import sharding
from txjax.nn import CrossAttention, LayerContext, Mask, Memory, PreNorm, Stack
from txjax.nn.stack.pipeline import Schedule
from txjax.sharding import Mesh
from txjax.types import UserError

from helpers.arrays import numbers, variables

pytestmark = pytest.mark.mesh

B = 8
L = 3
D = 4
X = jnp.asarray(numbers(B, L, D))


def stack(**how: Any) -> Stack:
    cross = CrossAttention(heads=2, kernel_init=parts()["mlp"].kernel_init)
    return Stack(block=PreNorm(**parts(cross=cross)), depth=4, **how)


@pytest.mark.parametrize(
    ("mesh", "how"),
    [
        pytest.param(Mesh(data=2, pipeline=4), {}, marks=pytest.mark.slow),
        (Mesh(data=2, pipeline=2, tensor=2), {"microbatches": 4, "rounds": 2, "remat": "full"}),
    ],
)
def test_stages_agree_with_one_loop(mesh: Mesh, how: dict[str, Any]) -> None:
    """With a memory, a mask and rotations for each example; gradients too."""
    draw = np.random.default_rng(1)
    turns = tuple(jnp.asarray(f(draw.normal(size=(B, L, 1)))).astype(jnp.float32) for f in (np.cos, np.sin))
    memory, seen = (
        jnp.asarray(numbers(B, 5, D, seed=2)),
        jnp.asarray(draw.random((B, 1, 1, 5)) < 0.6).at[..., 0].set(True),
    )
    context = LayerContext(rotation=turns, memory=Memory(memory, Mask(allowed=seen)))
    params = variables(stack(), X, context)

    def loss(params: Any, x: jax.Array, context: LayerContext, how: dict[str, Any]) -> tuple[jax.Array, jax.Array]:
        out = stack(**how).apply(params, x, context)
        return jnp.square(out).sum(), out

    both = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    want = jax.jit(lambda p, x, c: both(p, x, c, {}))(params, X, context)
    with sharding.use_mesh(mesh):
        got = jax.jit(lambda p, x, c: both(p, x, c, how))(params, X, context)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5), got, want)


def test_schedule_ticks() -> None:
    """Each item is at each group of layers once, in order, one tick after the previous group."""
    plan = Schedule(depth=12, stages=3, parts=4, rounds=2)
    assert plan.ticks == 2 * 4 + 2 and plan.idle == 2 / 10
    assert Schedule(12, 3, 16).idle == 2 / 18  # (stages - 1) / (parts + stages - 1): GPipe, 2.3
    grouped = plan.group(jnp.arange(12))
    np.testing.assert_array_equal(grouped[1], [[2, 3], [8, 9]])  # stage 1: the second group of each round
    x = jnp.arange(24).reshape(8, 3)
    np.testing.assert_array_equal(plan.join(plan.cut(x)), x)


def test_invalid_schedules_and_batch_sizes() -> None:
    with sharding.use_mesh(Mesh(data=2, pipeline=4)):
        with pytest.raises(UserError, match=r"config.model.depth: expected a multiple of .* = 4 \* 2, got 4"):
            variables(stack(rounds=2), X, LayerContext(memory=Memory(X)))
        with pytest.raises(UserError, match=r"microbatches: expected at least mesh.pipeline = 4.*, got 2"):
            Schedule(8, 4, 2, rounds=2)
        with pytest.raises(UserError, match=r"batch_size: expected a multiple of .*= 4 times the 2 parts .*, got 4"):
            few, context = X[:4], LayerContext(memory=Memory(X[:4]))
            stack().apply(variables(stack(), few, context), few, context)


def test_dropout_differs_between_layers_and_parts() -> None:
    dropping = Stack(block=PreNorm(**parts(dropout=0.5)), depth=4)
    params = variables(dropping, X, LayerContext())
    same = jnp.broadcast_to(X[:1], X.shape)
    with sharding.use_mesh(Mesh(data=2, pipeline=4)):
        run = jax.jit(lambda params, key: dropping.apply(params, same, LayerContext(train=True), rngs={"dropout": key}))
        noisy, again = (np.asarray(run(params, jax.random.key(2, impl="rbg"))) for _ in range(2))
    np.testing.assert_array_equal(noisy, again)
    assert len(np.unique(noisy.round(5), axis=0)) == B
