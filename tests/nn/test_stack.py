"""Blocks and stacks: layout and results don't depend on scan, unroll or remat."""

import collections
import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.flops import by_scope
from txjax.nn import (
    MLP,
    Attention,
    Block,
    CrossAttention,
    KernelInit,
    LayerContext,
    LayerNorm,
    Mask,
    Memory,
    PostNorm,
    PreNorm,
    RMSNorm,
    SingleBranch,
    Stack,
    StackRecord,
    record_stacks,
    set_model_fields,
    unstacked,
)
from txjax.nn.stack import captures
from txjax.parametrization import Scaling
from txjax.plan.figures import component
from txjax.types import UserError

from helpers.arrays import numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "kinds of layers, shared layers, trees of streams equal loops over the blocks",
)

X = jnp.asarray(numbers(2, 3, 4))


def parts(**fields: Any) -> dict[str, Any]:
    drawn = {"kernel_init": KernelInit()}
    return {
        "mixer": Attention(heads=2, **drawn),
        "mlp": MLP(**drawn),
        "norm": RMSNorm(),
        "dropout": 0.0,
        "scaling": Scaling(),
        **fields,
    }


@pytest.mark.parametrize("kind", [PreNorm, PostNorm])
def test_branches(kind: type[Block]) -> None:
    block = kind(**parts())
    params = variables(block, X, LayerContext())
    p = params["params"]
    layers = {"attention": parts()["mixer"], "mlp": parts()["mlp"]}

    def part(name: str, x: jax.Array) -> jax.Array:
        return layers[name].apply({"params": p[name]}, x, LayerContext())

    def norm(name: str, x: jax.Array) -> jax.Array:
        return RMSNorm().apply({"params": p[f"norm_{name}"]}, x)

    x = X
    for name in layers:
        pre, post = x + part(name, norm(name, x)), norm(name, x + part(name, x))
        x = pre if kind is PreNorm else post
    np.testing.assert_allclose(jax.jit(block.apply)(params, X, LayerContext()), x, atol=1e-6)


def test_layer_scale_and_a_single_branch() -> None:
    """x + scale * mlp(norm(mixer(x))) (Liu et al. 2022, figure 4); the scale begins at the field's value."""
    block = SingleBranch(**parts(layer_scale=0.25))
    drawn = block.init(jax.random.key(0), X, LayerContext())["params"]
    assert np.all(drawn["scale_mlp"].unbox() == 0.25) and set(drawn) == {"attention", "norm_mlp", "mlp", "scale_mlp"}
    params = variables(block, X, LayerContext())
    p = params["params"]
    mixed = parts()["mixer"].apply({"params": p["attention"]}, X, LayerContext())
    inner = parts()["mlp"].apply(
        {"params": p["mlp"]}, RMSNorm().apply({"params": p["norm_mlp"]}, mixed), LayerContext()
    )
    found = jax.jit(block.apply)(params, X, LayerContext())
    want = np.asarray(X) + np.asarray(p["scale_mlp"]) * np.asarray(inner)
    np.testing.assert_allclose(found, want, atol=1e-6)

    both = variables(PreNorm(**parts(layer_scale=0.25)), X, LayerContext())["params"]
    assert {"scale_attention", "scale_mlp"} <= set(both)


def test_cross_attention_reads_the_memory() -> None:
    block = PreNorm(**parts(cross=CrossAttention(heads=2, kernel_init=KernelInit())))
    memory = jnp.asarray(numbers(2, 5, 4, seed=1))
    hidden = Mask(allowed=jnp.asarray([True, True, False, False, False])[None, None, None])
    context = LayerContext(memory=Memory(memory, hidden))
    params = variables(block, X, context)
    got = jax.jit(block.apply)(params, X, context)
    unseen = LayerContext(memory=Memory(jnp.concatenate([memory[:, :2], memory[:, 2:] + 9], 1), hidden))
    np.testing.assert_array_equal(got, jax.jit(block.apply)(params, X, unseen))
    seen = LayerContext(memory=Memory(memory + 9, hidden))
    assert not np.allclose(got, jax.jit(block.apply)(params, X, seen))


def test_scan_unroll_and_remat_agree_with_a_loop_over_the_blocks() -> None:
    def run(**how: Any) -> tuple[jax.Array, dict]:
        stack = Stack(block=PreNorm(**parts(norm=LayerNorm())), depth=3, **how)
        assert shapes(stack, X, LayerContext()) == layout

        def loss(params: dict) -> tuple[jax.Array, jax.Array]:
            output = stack.apply(params, X, LayerContext())
            return jnp.square(output).sum(), output

        gradient, output = jax.jit(jax.grad(loss, has_aux=True))(params)
        return output, gradient

    plain = Stack(block=PreNorm(**parts(norm=LayerNorm())), depth=3, unroll=1)
    layout = shapes(plain, X, LayerContext())
    params = variables(plain, X, LayerContext())
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(params))

    x = X
    for layer in range(3):
        own = jax.tree.map(lambda p: p[layer], params["params"]["block"])  # noqa: B023
        x = PreNorm(**parts(norm=LayerNorm())).apply({"params": own}, x, LayerContext())
    output, gradient = run(unroll=1)
    np.testing.assert_allclose(output, x, atol=1e-6)
    for how in ({}, {"unroll": 9}, {"remat": "full"}, {"remat": "dots", "unroll": 2}):
        other, other_gradient = run(**how)
        np.testing.assert_allclose(other, output, atol=1e-6)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), other_gradient, gradient)


def test_layers_are_drawn_apart_and_their_axis_is_named() -> None:
    boxed = jax.jit(Stack(block=PreNorm(**parts()), depth=2).init)(jax.random.key(1, impl="rbg"), X, LayerContext())
    kernel = boxed["params"]["block"]["mlp"]["up"]["kernel"]
    assert kernel.names == ("layers", "embed", "mlp")
    assert not np.allclose(kernel.unbox()[0], kernel.unbox()[1])


def test_dropout_differs_between_layers_and_stops_outside_training() -> None:
    stack = Stack(block=PreNorm(**parts(dropout=0.5)), depth=2)
    params = variables(stack, X, LayerContext())
    rngs = {"dropout": jax.random.key(2, impl="rbg")}
    apply = jax.jit(stack.apply)
    noisy = apply(params, X, LayerContext(train=True), rngs=rngs)
    assert not np.allclose(noisy, apply(params, X, LayerContext(), rngs=rngs))
    np.testing.assert_array_equal(noisy, apply(params, X, LayerContext(train=True), rngs=rngs))


@pytest.mark.slow
def test_stochastic_depth_drops_whole_branches() -> None:
    """Layer i of n drops a branch of an example with probability rate * i / (n - 1), and scales kept branches."""
    examples = 1000
    rate = 0.5
    depth = 3
    block = PreNorm(**parts(mlp=MLP(kernel_init=KernelInit())), drop_path=rate)
    params = variables(block, X[:1], LayerContext())
    x = jnp.broadcast_to(X[:1], (examples, *X.shape[1:]))
    for layer in range(depth):
        depth_fraction = layer / (depth - 1)
        run = jax.jit(
            lambda key, h=depth_fraction: block.apply(params, x, LayerContext(train=True), h, rngs={"dropout": key})
        )
        got = np.asarray(run(jax.random.key(3, impl="rbg")))
        kinds, counts = np.unique(np.round(got[:, 0], 4), axis=0, return_counts=True)
        stay = 1 - rate * depth_fraction
        expected = sorted([stay**2, stay * (1 - stay), (1 - stay) * stay, (1 - stay) ** 2]) if layer else [1.0]
        assert len(kinds) == len(expected)  # both branches, either, or none
        np.testing.assert_allclose(sorted(counts / examples), expected, atol=0.06)
        whole = PreNorm(**parts(), drop_path=0.0)
        if layer == 0:
            np.testing.assert_allclose(got, whole.apply(params, x, LayerContext()), atol=1e-6)
        else:  # where only attention stays, its branch is 1 / stay as large
            attention = whole.mixer.apply(
                {"params": params["params"]["attention"]},
                whole.norm.apply({"params": params["params"]["norm_attention"]}, X[:1]),
                LayerContext(),
            )
            alone = np.asarray(X[0] + attention[0] / stay)
            assert any(np.allclose(g, alone, atol=1e-5) for g in got)
    np.testing.assert_allclose(
        block.apply(params, X[:1], LayerContext()), whole.apply(params, X[:1], LayerContext()), atol=1e-6
    )


def test_a_field_that_the_model_sets_cannot_be_set_twice() -> None:
    with pytest.raises(UserError, match=r"config\.model\.mixer\.heads: expected nothing: the model sets it"):
        set_model_fields(Attention(heads=2), "config.model.mixer", heads=4)


def layer_by_layer(blocks: list[Block], params: dict, x: jax.Array, context: LayerContext) -> list[jax.Array]:
    """The streams after each of the blocks; `params` has each layer's in order."""
    streams = []
    for i, block in enumerate(blocks):
        x = block.apply({"params": jax.tree.map(lambda p, i=i: p[i], params)}, x, context)
        streams.append(x)
    return streams


CAUSAL = LayerContext(mask=Mask(causal=True))


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "groups", "sets"), [(4, None, 4), (4, 2, 2), (4, 1, 1)])
def test_kinds_take_turns_and_groups_share_parameters(depth: int, groups: int | None, sets: int) -> None:
    """Layer i is of kind i % 2 and has the parameters i // (depth / groups); with remat, gradients too."""
    near, far = (PreNorm(**parts(mixer=window(size))) for size in (2, None))
    params = variables(Stack(block=near, depth=sets), X, CAUSAL)
    stack = Stack(block=(near, far), depth=depth, groups=groups, remat="full")
    assert shapes(stack, X, CAUSAL) == shapes(Stack(block=near, depth=sets), X, CAUSAL)

    def wanted(params: dict) -> tuple[jax.Array, jax.Array]:
        each = jax.tree.map(lambda p: jnp.repeat(p, depth // sets, axis=0), params["params"]["block"])
        streams = jnp.stack(layer_by_layer([near, far] * (depth // 2), each, X, CAUSAL))
        return jnp.square(streams).sum(), streams

    def got(params: dict) -> tuple[jax.Array, jax.Array]:
        last, streams = stack.apply(params, X, CAUSAL, every=True)
        return jnp.square(streams).sum() + 0 * last.sum(), streams

    (want_gradient, want), (gradient, streams) = (jax.jit(jax.grad(f, has_aux=True))(params) for f in (wanted, got))
    np.testing.assert_allclose(streams, want, atol=1e-5)
    apart = unstacked(params, [""])
    assert [leaf.shape for leaf in jax.tree.leaves(apart)] == [
        leaf.shape[1:] for leaf in jax.tree.leaves(params)
    ] * sets
    np.testing.assert_allclose(stack.apply(apart, X, CAUSAL, every=True)[1], want, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), gradient, want_gradient)
    stateful = {**params, "batch_stats": {"block": {"mean": X}}}
    assert jax.tree.structure(unstacked(stateful, [""])) == jax.tree.structure(stateful)


def window(size: int | None) -> Attention:
    return Attention(heads=2, window=size, kernel_init=KernelInit())


@pytest.mark.slow
def test_layers_of_kinds_have_their_own_cache_maps_and_dropout() -> None:
    blocks = tuple(PreNorm(**parts(mixer=window(size), dropout=0.5)) for size in (2, None))
    stack = Stack(block=blocks, depth=4)
    params = variables(stack, X, CAUSAL)
    with captures.attention_maps():
        _, sown = stack.apply(params, X, CAUSAL, mutable=["attention_maps"])
    maps = sown["attention_maps"]["block"]["attention"]["weights"]
    assert maps.shape == (4, 2, 2, 3, 3)
    assert (maps[0::2, ..., 2, 0] == 0).all() and (maps[1::2, ..., 2, 0] > 0).all()
    np.testing.assert_allclose(maps.sum(-1), 1.0, atol=1e-6)
    _, changed = stack.apply(params, X, dataclasses.replace(CAUSAL, index=jnp.int32(0)), mutable=["cache"])
    keys = changed["cache"]["block"]["attention"]["keys"]
    assert keys.names == ("layers", "batch", "kv_heads", None, None) and keys.value.shape == (4, 2, 2, 3, 2)
    _, apart = stack.apply(
        unstacked(params, [""]), X, dataclasses.replace(CAUSAL, index=jnp.int32(0)), mutable=["cache"]
    )
    for layer, own in zip(keys.value, apart["cache"]["block"], strict=True):
        assert own["attention"]["keys"].names == keys.names[1:]
        np.testing.assert_allclose(own["attention"]["keys"].value, layer, atol=1e-6)
    noisy = [
        stack.apply(params, X, LayerContext(train=True), every=True, rngs={"dropout": jax.random.key(seed)})[1]
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(noisy[0], noisy[1])
    assert not np.allclose(noisy[0], noisy[2])


class TwoStreams(PreNorm):
    """Each stream attends to itself, then adds the other's mean."""

    @nn.compact
    def __call__(self, x: Any, context: LayerContext, depth_fraction: Any = 1.0) -> Any:
        text = self.mixer(self.norm.clone(parent=self, name="norm_text")(x["text"]), context)
        return {"text": x["text"] + text + x["image"].mean(1, keepdims=True), "image": 2 * x["image"]}


def test_any_tree_of_streams_is_carried() -> None:
    stack = Stack(block=TwoStreams(**parts()), depth=3)
    streams = {"text": X, "image": jnp.ones((2, 5, 4))}
    params = variables(stack, streams, LayerContext())
    last, each = stack.apply(params, streams, LayerContext(), every=True)
    assert (last["image"] == 8).all() and each["image"].shape == (3, 2, 5, 4)
    block = TwoStreams(**parts())
    for i in range(3):
        streams = block.apply(
            {"params": jax.tree.map(lambda p, i=i: p[i], params["params"]["block"])}, streams, LayerContext()
        )
    np.testing.assert_allclose(last["text"], streams["text"], atol=1e-5)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"depth": 3}, r"config\.model\.depth: expected a multiple of the 2 kinds of layers, got 3"),
        ({"depth": 4, "groups": 3}, r"config\.model\.stack\.groups: expected a divisor of the depth 4, got 3"),
        ({"depth": 6, "groups": 2}, r"config\.model\.stack\.groups: expected groups of a multiple of the 2 kinds"),
    ],
)
def test_depths_that_kinds_or_groups_do_not_divide(how: dict[str, Any], message: str) -> None:
    blocks = (PreNorm(**parts()), PostNorm(**parts()))
    with pytest.raises(UserError, match=message):
        shapes(Stack(block=blocks, **how), X, LayerContext())


def test_the_stacks_that_a_trace_meets_are_recorded() -> None:
    block = PreNorm(**parts())
    stack = Stack(block=(block, block), depth=4, groups=2)
    params = shapes(stack, X, LayerContext())
    with record_stacks() as met:
        jax.eval_shape(stack.apply, params, X, LayerContext())
    assert met == [StackRecord(path="", streams=((2, 3, 4),), depth=4, branches=2, groups=2, rounds=1, chosen=False)]


def test_flops_of_layers_have_the_same_names_in_any_stack() -> None:
    """The plan adds them up by component."""

    def flops(**how: Any) -> dict[str, int]:
        stack, found = Stack(depth=4, **how), collections.Counter()
        for scope, count in by_scope(stack.apply, shapes(stack, X, LayerContext()), X, LayerContext()).items():
            found[component(("layers", *scope[1:]))] += count
        return found

    block = PreNorm(**parts())
    plain = flops(block=block)
    assert set(plain) == {"attention", "attention scores", "mlp"}
    assert plain == flops(block=(block, block)) == flops(block=block, groups=2)


def test_chosen_layers_and_none_behind_them() -> None:
    """The streams of two layers of four, side by side, equal those of all layers; the fourth has no FLOPs."""

    def stack(**fields: Any) -> Stack:
        return Stack(block=PreNorm(**parts()), depth=4, **fields)

    context = LayerContext(train=False)
    params = variables(stack(), x=X, context=context)
    _, streams = stack().apply(params, X, context, every=True)
    chosen = stack(outputs=(0, -2)).apply(params, X, context)
    np.testing.assert_allclose(chosen, jnp.concatenate([streams[0], streams[2]], -1), rtol=1e-6)
    np.testing.assert_allclose(stack(outputs=(1,)).apply(params, X, context), streams[1], rtol=1e-6)
    of_chosen = variables(stack(outputs=(0, -2)), x=X, context=context)
    assert jax.tree.map(jnp.shape, of_chosen) == jax.tree.map(jnp.shape, params)
    costs = [
        sum(by_scope(lambda p, s=s: s.apply(p, X, context), params).values()) for s in (stack(), stack(outputs=(2,)))
    ]
    assert costs[1] == 3 / 4 * costs[0]
    with record_stacks() as records:
        jax.eval_shape(lambda p: stack(outputs=(2,)).apply(p, X, context), params)
    assert [(record.depth, record.chosen) for record in records] == [(3, True)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"outputs": (4,)}, "numbers of the 4 layers"),
        ({"outputs": ()}, "numbers of the 4 layers"),
        ({"outputs": (0,), "groups": 2}, "None for shared layers"),
    ],
)
def test_layers_that_cannot_be_chosen(fields: dict[str, Any], expected: str) -> None:
    stack = Stack(block=PreNorm(**parts()), depth=4, **fields)
    with pytest.raises(UserError, match=f"config.model.stack.outputs: expected {expected}"):
        variables(stack, x=X, context=LayerContext(train=False))
