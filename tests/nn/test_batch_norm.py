"""Batch normalization: its statistics by hand, and groups that any split into microbatches leaves alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_stack import parts

from txjax import sharding
from txjax.nn import BatchNorm, FrozenBatchNorm, GroupNorm, LayerContext, PreNorm, Stack, microbatch_of
from txjax.sharding import Mesh
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "convolutions equal their definition; batch normalization by hand",
)

X = numbers(8, 3, 2, 5, seed=1) * 2 + 1


def test_the_whole_batch_or_groups_and_the_averages() -> None:
    for group in (None, 8, 2):
        norm = BatchNorm(momentum=0.75, group=group)
        made = variables(norm, X, False)
        got, changed = call(norm.apply, made, X, True, mutable=["batch_stats"])
        own, groups = made["params"], 8 // (group or 8)
        means, variances = [], []
        for i in range(groups):
            part = X[i::groups]
            means.append(part.mean((0, 1, 2)))
            variances.append(part.var((0, 1, 2), ddof=1))  # unbiased, as in PyTorch
            wanted = (part - means[-1]) / np.sqrt(part.var((0, 1, 2)) + 1e-5) * own["scale"] + own["bias"]
            np.testing.assert_allclose(got[i::groups], wanted, rtol=1e-4, atol=1e-5)
        for name, seen in (("mean", means), ("var", variances)):
            wanted = 0.75 * made["batch_stats"][name] + 0.25 * np.mean(seen, 0)
            np.testing.assert_allclose(changed["batch_stats"][name], wanted, rtol=1e-5)
        stats = made["batch_stats"]
        wanted = (X - stats["mean"]) / np.sqrt(stats["var"] + 1e-5) * own["scale"] + own["bias"]
        np.testing.assert_allclose(call(norm.apply, made, X, False), wanted, rtol=1e-4, atol=1e-5)


def test_a_frozen_one_is_that_of_evaluation() -> None:
    """With the same numbers, all of them state: no parameter, no change in training."""
    norm, frozen = BatchNorm(), FrozenBatchNorm()
    made = variables(norm, X, False)
    state = {"batch_stats": {**made["batch_stats"], **made["params"]}}
    assert shapes(frozen, X).keys() == {"batch_stats"}
    found, changed = call(frozen.apply, state, X, mutable=["batch_stats"])
    np.testing.assert_allclose(found, call(norm.apply, made, X, False), rtol=1e-5, atol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, changed, state)


def test_bfloat16_is_normalised_in_float32() -> None:
    x = jnp.asarray(1000 + X, jnp.bfloat16)
    norm = BatchNorm()
    made = variables(norm, x, False)
    got, changed = norm.apply(made, x, True, mutable=["batch_stats"])
    wanted, exact = norm.apply(made, x.astype(jnp.float32), True, mutable=["batch_stats"])
    assert got.dtype == jnp.bfloat16 and changed["batch_stats"]["var"].dtype == jnp.float32
    np.testing.assert_array_equal(got, wanted.astype(jnp.bfloat16))
    jax.tree.map(np.testing.assert_array_equal, changed, exact)


def test_groups_that_do_not_suit_the_batch_are_errors() -> None:
    def train(x: np.ndarray, **fields: int) -> None:
        norm = BatchNorm(**fields)
        call(norm.apply, variables(norm, x, False), x, True, mutable=["batch_stats"])

    with pytest.raises(UserError, match="BatchNorm.group of the model: expected a divisor of the 8 examples, got 3"):
        train(X, group=3)
    with pytest.raises(UserError, match="expected more than one value to take statistics of, got 1"):
        train(X[:, 0, 0], group=1)
    with microbatch_of(2):
        with pytest.raises(UserError, match="divisor of the 4 examples in each of 2 microbatches, got 8"):
            train(X[:4], group=8)
        with pytest.raises(UserError, match="config.microbatches: expected 1 for BatchNorm over whole batches"):
            train(X[:4])
        train(X[:4], group=4)


@pytest.mark.mesh
def test_a_pipeline_refuses_model_state() -> None:
    x = jnp.asarray(numbers(8, 3, 4))
    stack = Stack(block=PreNorm(**parts()), depth=2)
    made = variables(stack, x, LayerContext()) | {"batch_stats": {"block": {"mean": np.zeros((2, 4))}}}
    with (
        sharding.use_mesh(Mesh(data=4, pipeline=2)),
        pytest.raises(UserError, match=r"mesh.pipeline: expected 1 for blocks with state \(batch_stats\), got 2"),
    ):
        stack.apply(made, x, LayerContext())


@pytest.mark.parametrize("group", [None, 4])
def test_padding_is_never_read(group: int | None) -> None:
    """More padding, whatever is in it, changes neither the outputs nor the averages; all positions count as without."""
    mask = np.arange(3)[None, :, None] < np.asarray([3, 1, 2, 3, 2, 3, 1, 1])[:, None, None]
    norm = BatchNorm(group=group)
    made = variables(norm, X, False)
    longer, more = np.concatenate([X, 100 + X], 1), np.concatenate([mask, np.zeros_like(mask)], 1)
    results = [
        call(norm.apply, made, x, True, mask=where, mutable=["batch_stats"]) for x, where in ((X, mask), (longer, more))
    ]
    (short, short_state), (long, long_state) = results
    where = np.broadcast_to(mask, X.shape[:-1])
    np.testing.assert_allclose(long[:, :3][where], short[where], rtol=1e-5, atol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), long_state, short_state)
    if group is None:
        wanted = (X - X[where].mean(0)) / np.sqrt(X[where].var(0) + 1e-5) * made["params"]["scale"]
        np.testing.assert_allclose(short[where], (wanted + made["params"]["bias"])[where], rtol=1e-4, atol=1e-5)
        wanted = 0.9 * made["batch_stats"]["var"] + 0.1 * X[where].var(0, ddof=1)
        np.testing.assert_allclose(short_state["batch_stats"]["var"], wanted, rtol=1e-5)
    whole = call(norm.apply, made, X, True, mask=np.ones_like(mask), mutable=["batch_stats"])
    plain = call(norm.apply, made, X, True, mutable=["batch_stats"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), whole, plain)


def test_group_norm_reads_no_padding() -> None:
    norm, mask = GroupNorm(groups=1), np.arange(3)[None, :, None] < np.asarray([3, 1, 2, 3, 2, 3, 1, 1])[:, None, None]
    made = variables(norm, X)
    got = call(norm.apply, made, X, mask=mask)
    for i in range(len(X)):
        alone = X[i : i + 1, : mask[i].sum()]
        np.testing.assert_allclose(got[i : i + 1, : mask[i].sum()], call(norm.apply, made, alone), rtol=1e-4, atol=1e-5)
