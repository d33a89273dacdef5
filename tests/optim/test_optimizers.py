"""Two updates of every optimizer against its paper's formulas in numpy, layer by layer where layers matter."""

import dataclasses
import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from txjax.axes import Axes, axes_of
from txjax.checkpoint import Store
from txjax.nn import Conv
from txjax.optim import LARS, SGD, Adafactor, AdamW, Constant, Cosine, Group, Lion, Muon, Optimizer
from txjax.optim.layers import over_layers
from txjax.types import TrainState, UserError, flat_paths

from helpers.train_states import abstract, assert_same

AXES = {
    "embed": {"embedding": Axes(("vocab", "embed"), 1)},
    "layers": {
        "query": {
            "kernel": Axes(("layers", "embed", "heads", "head_size"), 1),
            "bias": Axes(("layers", "heads", "head_size")),
        },
        "out": {"kernel": Axes(("layers", "heads", "head_size", "embed"), 2)},
        "up": {"kernel": Axes(("layers", "embed", "mlp"), 1)},
    },
    "scale": Axes(("embed",)),
}
SIZES = {"vocab": 5, "embed": 6, "layers": 2, "heads": 2, "head_size": 4, "mlp": 7}
LR = 0.1
RAW = dict(peak_lr=LR, schedule=Constant(), weight_decay=0.0, clip=None)  # nothing but the direction


def is_axes(node: object) -> bool:
    return isinstance(node, tuple)


def draw(seed: int, dtype: str = "float32") -> dict:
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda axes: jnp.asarray(rng.normal(size=[SIZES[a] for a in axes]), dtype), AXES, is_leaf=is_axes
    )


PARAMS, GRADS = draw(0), [draw(1), draw(2)]


def run(optimizer: Optimizer, grads: list, params: dict = PARAMS) -> tuple[list[dict[str, np.ndarray]], dict]:
    """Minus the update, divided by the learning rate, of each step; parameters are not updated."""
    transform = optimizer.build(10, AXES)
    state = transform.init(params)
    steps = []
    for grad in grads:
        updates, state = jax.jit(transform.update)(grad, state, params)
        steps.append({path: np.asarray(leaf, np.float64) / -LR for path, leaf in flat_paths(updates).items()})
    return steps, state


def leaves(tree: dict) -> dict[str, np.ndarray]:
    return {path: np.asarray(leaf, np.float64) for path, leaf in flat_paths(tree).items()}


def close(actual: dict, expected: dict, rtol: float = 2e-5) -> None:
    assert actual.keys() == expected.keys()
    for path in actual:
        np.testing.assert_allclose(actual[path], expected[path], rtol=rtol, atol=2e-6, err_msg=path)


def adam(grads: list[np.ndarray], b1: float, b2: float, eps: float) -> list[np.ndarray]:
    m = v = np.zeros_like(grads[0])
    steps = []
    for t, g in enumerate(grads, start=1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        steps.append(m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + eps))
    return steps


def test_adamw() -> None:
    steps, _ = run(AdamW(**RAW, b1=0.8, b2=0.9, eps=1e-3), GRADS)
    first, second = leaves(GRADS[0]), leaves(GRADS[1])
    expected = {path: adam([first[path], second[path]], 0.8, 0.9, 1e-3) for path in first}
    for t in range(2):
        close(steps[t], {path: both[t] for path, both in expected.items()})


def test_lion() -> None:
    steps, _ = run(Lion(**RAW, b1=0.9, b2=0.5), GRADS)
    first, second = leaves(GRADS[0]), leaves(GRADS[1])
    close(steps[0], {path: np.sign(g) for path, g in first.items()})
    close(steps[1], {path: np.sign(0.9 * 0.5 * first[path] + 0.1 * second[path]) for path in first})


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd(nesterov: bool) -> None:
    steps, _ = run(SGD(**RAW, momentum=0.5, nesterov=nesterov), GRADS)
    first, second = leaves(GRADS[0]), leaves(GRADS[1])
    momentum = {path: 0.5 * first[path] + second[path] for path in first}
    nesterovs = {path: second[path] + 0.5 * m for path, m in momentum.items()}
    close(steps[1], nesterovs if nesterov else momentum)


def adafactor(grads: list[np.ndarray], p: np.ndarray) -> np.ndarray:
    """The last direction for one layer: a matrix [n, m] or anything else."""
    r = c = np.zeros(())
    for t, g in enumerate(grads, start=1):
        keep, square = 1 - t**-0.8, g**2 + 1e-30
        if g.ndim == 2:
            rows, columns = square.mean(1), square.mean(0)
            r = rows if t == 1 else keep * r + (1 - keep) * rows
            c = columns if t == 1 else keep * c + (1 - keep) * columns
            v = np.outer(r, c) / r.mean()
        else:
            v = square if t == 1 else keep * v + (1 - keep) * square
    u = grads[-1] / np.sqrt(v)
    return u / max(1, np.sqrt((u**2).mean())) * max(1e-3, np.sqrt((p**2).mean()))


# Path -> whether it is stacked, and the matrix of one layer.
MATRICES = {
    "embed/embedding": (False, (5, 6)),
    "layers/query/kernel": (True, (6, 8)),
    "layers/out/kernel": (True, (8, 6)),
    "layers/up/kernel": (True, (6, 7)),
    "layers/query/bias": (True, (2, 4)),
    "scale": (False, (6,)),
}


def by_layer(path: str, arrays: list[np.ndarray], function) -> np.ndarray:  # type: ignore
    stacked, shape = MATRICES[path]
    if not stacked:
        return function(*(a.reshape(shape) for a in arrays)).reshape(arrays[0].shape)
    rows = [function(*(a[layer].reshape(shape) for a in arrays)) for layer in range(SIZES["layers"])]
    return np.stack(rows).reshape(arrays[0].shape)


def test_adafactor() -> None:
    steps, state = run(Adafactor(**RAW), GRADS)
    first = leaves(GRADS[0])
    second = leaves(GRADS[1])
    params = leaves(PARAMS)
    expected = {
        path: by_layer(path, [first[path], second[path], params[path]], lambda a, b, p: adafactor([a, b], p))
        for path in params
    }
    close(steps[1], expected)
    sizes = {path: leaf.shape for path, leaf in flat_paths(state).items()}
    assert [size for path, size in sizes.items() if path.endswith("row/layers/up/kernel")] == [(2, 6, 1)]
    assert [size for path, size in sizes.items() if path.endswith("column/layers/up/kernel")] == [(2, 1, 7)]
    assert not [path for path in sizes if path.endswith("full/layers/up/kernel")]


@pytest.mark.slow
def test_adafactor_is_that_of_optax_for_each_matrix() -> None:
    steps, _ = run(Adafactor(**RAW), GRADS)
    reference = optax.chain(
        optax.scale_by_factored_rms(decay_rate=0.8, min_dim_size_to_factor=1),
        optax.clip_by_block_rms(1.0),
        optax.scale_by_param_block_rms(1e-3),
    )

    def last(first: np.ndarray, second: np.ndarray, p: np.ndarray) -> np.ndarray:
        state = reference.init(jnp.asarray(p))
        for g in (first, second):
            direction, state = reference.update(jnp.asarray(g), state, jnp.asarray(p))
        return np.asarray(direction)

    first = leaves(GRADS[0])
    second = leaves(GRADS[1])
    params = leaves(PARAMS)
    matrices = [path for path in params if path.endswith(("kernel", "embedding"))]
    expected = {path: by_layer(path, [first[path], second[path], params[path]], last) for path in matrices}
    close({path: steps[1][path] for path in matrices}, expected)


def test_adafactor_of_a_token_without_a_gradient() -> None:
    """Its squares are the smallest that a moment has: products of two of them are zero in float32."""
    path = "embed/embedding"
    grad = jax.tree.map(lambda g: g, GRADS[0])
    grad["embed"]["embedding"] = (1e-3 * grad["embed"]["embedding"]).at[2].set(0).at[:, 3].set(0)
    (found,), _ = run(Adafactor(**RAW), [grad])
    assert all(np.isfinite(leaf).all() for leaf in found.values())
    assert not found[path][2].any() and found[path][1, :3].all()


def test_a_function_of_one_layer_is_mapped_over_layers_and_experts() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    norms = np.linalg.norm(x, axis=(0, 2), keepdims=True)
    scaled = over_layers(lambda x: x / jnp.linalg.norm(x), ("embed", "layers", "mlp", "experts"))(jnp.asarray(x))
    np.testing.assert_allclose(scaled, x / norms, rtol=1e-6)


def test_lars() -> None:
    """The decay is inside the norm, and so in the momentum; a matrix of zeros moves as with SGD."""
    params = {**PARAMS, "embed": {"embedding": jnp.zeros((5, 6))}}
    steps, _ = run(LARS(**RAW | {"weight_decay": 0.3}, momentum=0.5, trust=0.01), GRADS, params)
    arrays = leaves(params)

    def trusted(g: np.ndarray, p: np.ndarray) -> np.ndarray:
        u = g + 0.3 * p
        return u if not p.any() else 0.01 * np.linalg.norm(p) / np.linalg.norm(u) * u

    first, second = (
        {
            path: by_layer(path, [g, arrays[path]], trusted) if path.endswith(("kernel", "embedding")) else g
            for path, g in leaves(grads).items()
        }
        for grads in GRADS
    )
    close(steps[0], first)
    close(steps[1], {path: 0.5 * first[path] + second[path] for path in first})


def newton_schulz(g: np.ndarray) -> np.ndarray:
    x = g / np.linalg.norm(g)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x


def test_muon() -> None:
    steps, _ = run(Muon(**RAW, momentum=0.9, rms=0.3, b1=0.8, b2=0.9), GRADS)
    first, second = leaves(GRADS[0]), leaves(GRADS[1])
    expected = {path: adam([first[path], second[path]], 0.8, 0.9, 1e-8)[1] for path in first}
    for path in first:
        if path.startswith("layers/") and path.endswith("kernel"):
            # Nesterov's momentum with each of its two terms free of the bias towards zero (Dozat 2016).
            momentum = 0.9 * 0.1 * first[path] + 0.1 * second[path]
            look_ahead = 0.9 * momentum / (1 - 0.9**3) + 0.1 * second[path] / (1 - 0.9**2)
            scale = 0.3 * np.sqrt(max(MATRICES[path][1]))
            expected[path] = by_layer(path, [look_ahead], lambda x: scale * newton_schulz(x))  # noqa: B023
    close(steps[1], expected, rtol=1e-3)


def test_muon_moves_matrices_about_as_far_as_adamw() -> None:
    steps, _ = run(Muon(**RAW), GRADS[:1])
    for path in ("layers/query/kernel", "layers/out/kernel", "layers/up/kernel"):
        assert 0.12 < np.sqrt((steps[0][path] ** 2).mean()) < 0.25


def test_muon_takes_convolutions_as_matrices_and_leaves_depthwise_ones_to_adamw() -> None:
    """[taps C F] is the matrix [taps * C, F]; a depthwise kernel [taps 1 F] has Adam's direction."""
    layers = {
        "full": Conv((6,), size=(3, 3)),
        "grouped": Conv((6,), size=(3, 3), groups=2),
        "depthwise": Conv((4,), size=(3, 3), groups=4),
        "expanding": Conv((8,), size=(3, 3), groups=4),
    }
    axes, grads = {}, {}
    for name, layer in layers.items():
        kernel = jax.eval_shape(layer.init, jax.random.key(0), jnp.zeros((1, 5, 5, 4)))["params"]["kernel"]
        own = axes_of(kernel)
        axes[name] = {"kernel": Axes(("layers", *own), own.inputs)}
        grads[name] = {"kernel": np.random.default_rng(0).normal(size=(2, *kernel.value.shape)).astype("float32")}
    transform = Muon(**RAW, rms=0.3).build(10, axes)
    updates, _ = transform.update(grads, transform.init(grads), grads)
    for name in layers:
        step, grad = (np.asarray(tree[name]["kernel"], np.float64) for tree in (updates, grads))
        for layer in range(2):
            flat = grad[layer].reshape(-1, grad.shape[-1])
            rows, columns = flat.shape
            wide = flat.T if rows > columns else flat
            direction = newton_schulz(wide) * 0.3 * np.sqrt(max(rows, columns))
            orthogonal = direction.T if rows > columns else direction
            expected = orthogonal if name in ("full", "grouped") else np.sign(flat)
            np.testing.assert_allclose(step[layer].reshape(rows, columns) / -LR, expected, rtol=2e-3, atol=2e-3)


def test_muon_needs_hidden_matrices() -> None:
    with pytest.raises(UserError, match="without hidden matrices, got 'Muon'; did you mean AdamW"):
        Muon().build(1000, {"scale": Axes(("embed",)), "embedding": Axes(("vocab", "embed"), 1)})


def test_decay_learning_rate_and_groups() -> None:
    groups = (
        Group("layers/.*", lr=0.5, weight_decay=2.0),
        Group("embed/.*", weight_decay=0.0),
        Group("scale", lr=0.0),
    )
    (step,), _ = run(SGD(**RAW | {"weight_decay": 0.3}, groups=groups), GRADS[:1])
    grads, params = leaves(GRADS[0]), leaves(PARAMS)
    expected = {path: 0.5 * (grads[path] + 0.6 * params[path]) for path in grads if path.startswith("layers")}
    close(step, expected | {"embed/embedding": grads["embed/embedding"], "scale": np.zeros(6)})


def test_clip_comes_before_the_decay() -> None:
    (step,), _ = run(SGD(**RAW | {"clip": 2.0, "weight_decay": 0.3}, groups=(Group(),)), GRADS[:1])
    grads, params = leaves(GRADS[0]), leaves(PARAMS)
    norm = np.sqrt(sum((g**2).sum() for g in grads.values()))
    close(step, {path: grads[path] * 2 / norm + 0.3 * params[path] for path in grads})


def test_schedule_counts_updates() -> None:
    optimizer = SGD(**RAW | {"schedule": Constant(warmup_steps=2)}, momentum=0.0)
    steps, _ = run(optimizer, [GRADS[0]] * 3)
    ratios = [step["scale"] / leaves(GRADS[0])["scale"] for step in steps]
    np.testing.assert_allclose(ratios, np.array([[0.5], [1], [1]]) * np.ones(6), rtol=1e-6)
    np.testing.assert_allclose([optimizer.lr(10)(s) for s in range(3)], [LR / 2, LR, LR], rtol=1e-6)


@pytest.mark.parametrize(
    "optimizer", [AdamW(), Lion(), SGD(), LARS(), Adafactor(), Muon()], ids=lambda o: type(o).__name__
)
def test_state_mirrors_the_parameters_in_float32(optimizer: Optimizer) -> None:
    optimizer.schedule = Constant()
    params = draw(0, "bfloat16")
    transform = optimizer.build(10, AXES)
    state = jax.eval_shape(transform.init, params)
    _, after = jax.eval_shape(transform.update, params, state, params)
    assert after == state  # shapes and dtypes never change
    shapes = {path: leaf.shape for path, leaf in flat_paths(params).items()}
    owners = {path: [p for p in shapes if path.endswith("/" + p)] for path in flat_paths(state)}
    for path, leaf in flat_paths(state).items():
        assert leaf.dtype in (jnp.float32, jnp.int32)
        if not owners[path]:
            assert leaf.size <= 3, path  # counters and Muon's three coefficients
        else:
            assert leaf.shape == shapes[owners[path][0]] or isinstance(optimizer, Adafactor)
    assert {owner for found in owners.values() for owner in found} == set(shapes)


def kinds(base: type[Optimizer]) -> list[type[Optimizer]]:
    """The optimizers of the package."""
    below = [kind for subclass in base.__subclasses__() for kind in (subclass, *kinds(subclass))]
    return [kind for kind in below if kind.__module__.startswith("txjax.")]


def test_the_package_has_these_optimizers() -> None:
    assert {kind.__name__ for kind in kinds(Optimizer)} == {"AdamW", "Lion", "SGD", "LARS", "Adafactor", "Muon"}


@pytest.mark.parametrize("kind", kinds(Optimizer), ids=lambda kind: kind.__name__)
def test_resume_continues_bit_for_bit(kind: type[Optimizer], tmp_path: Path) -> None:
    """Two updates, a checkpoint and two more equal four without a stop; the restored state makes a difference."""
    transform = kind(schedule=Cosine(warmup_steps=3)).build(10, AXES)

    @jax.jit
    def step(state: TrainState, grad: dict) -> TrainState:
        updates, opt_state = transform.update(grad, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        return dataclasses.replace(state, step=state.step + 1, params=params, opt_state=opt_state)

    def after(state: TrainState, grads: list) -> TrainState:
        return functools.reduce(step, grads, state)

    start = TrainState(jnp.int32(0), PARAMS, {}, {}, transform.init(PARAMS), jnp.zeros(2, jnp.int32))
    half = after(start, GRADS)
    store = Store(tmp_path)
    store.save(2, half, {"data": {}, "metrics": {}})
    store.wait()
    restored = Store(tmp_path).restore(abstract(half))
    assert restored is not None
    continued, without_a_stop = after(restored[0], GRADS), after(half, GRADS)
    assert_same(continued, without_a_stop)
    assert int(continued.step) == 4
    fresh = leaves(after(dataclasses.replace(half, opt_state=start.opt_state), GRADS).params)
    assert any(not np.array_equal(fresh[path], leaf) for path, leaf in leaves(continued.params).items())


@pytest.mark.parametrize("kind", [AdamW, Lion, Muon])
def test_momentum_in_bfloat16(kind: type[Optimizer]) -> None:
    """The first step is the same; the second uses a rounded momentum."""
    (first, second), state = run(kind(**RAW), GRADS)
    (near_first, near_second), rounded = run(kind(**RAW, momentum_dtype="bfloat16"), GRADS)
    close(near_first, first)
    for path in second:
        away = np.abs(near_second[path] - second[path])
        assert (away < 0.02).mean() > 0.9, path  # Lion's signs turn where the momentum is almost none
    dtypes = {path: x.dtype for path, x in flat_paths(rounded).items() if "/mu/" in path or path.startswith("mu/")}
    assert dtypes and set(dtypes.values()) == {jnp.dtype("bfloat16")}
    assert all(x.dtype != jnp.bfloat16 for x in jax.tree.leaves(state))
