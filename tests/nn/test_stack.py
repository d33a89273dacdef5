"""Blocks and stacks: one layout and one result, however the loop is run."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import MLP, Attention, Block, Context, Init, LayerNorm, PostNorm, PreNorm, RMSNorm, Stack, fill
from txjax.types import UserError

from made import numbers, shapes, variables

X = jnp.asarray(numbers(2, 3, 4))


def parts(**fields: Any) -> dict[str, Any]:
    drawn = {"initial": Init(), "residual": 1.0}
    return {
        "attention": Attention(heads=2, **drawn),
        "mlp": MLP(**drawn),
        "norm": RMSNorm(),
        "dropout": 0.0,
        **fields,
    }


@pytest.mark.parametrize("kind", [PreNorm, PostNorm])
def test_branches(kind: type[Block]) -> None:
    block = kind(**parts())
    params = variables(block, X, Context())
    p = params["params"]

    def part(name: str, x: jax.Array, *args: Any) -> jax.Array:
        return parts()[name].apply({"params": p[name]}, x, *args)

    def norm(name: str, x: jax.Array) -> jax.Array:
        return RMSNorm().apply({"params": p[f"norm_{name}"]}, x)

    x = X
    for name, args in (("attention", (Context(),)), ("mlp", (False,))):
        pre, post = x + part(name, norm(name, x), *args), norm(name, x + part(name, x, *args))
        x = pre if kind is PreNorm else post
    np.testing.assert_allclose(jax.jit(block.apply)(params, X, Context()), x, atol=1e-6)


def test_cross_attention_reads_the_memory() -> None:
    block = PreNorm(**parts(cross=Attention(heads=2, initial=Init(), residual=1.0)))
    memory = jnp.asarray(numbers(2, 5, 4, seed=1))
    context = Context(memory=memory, memory_mask=jnp.asarray([True, True, False, False, False])[None, None, None])
    params = variables(block, X, context)
    got = jax.jit(block.apply)(params, X, context)
    unseen = Context(memory=jnp.concatenate([memory[:, :2], memory[:, 2:] + 9], 1), memory_mask=context.memory_mask)
    np.testing.assert_array_equal(got, jax.jit(block.apply)(params, X, unseen))
    seen = Context(memory=memory + 9, memory_mask=context.memory_mask)
    assert not np.allclose(got, jax.jit(block.apply)(params, X, seen))


def test_scan_unroll_and_remat_agree_with_a_loop_over_the_blocks() -> None:
    def run(**how: Any) -> tuple[jax.Array, dict]:
        stack = Stack(block=PreNorm(**parts(norm=LayerNorm())), depth=3, **how)
        assert shapes(stack, X, Context()) == layout

        def loss(params: dict) -> tuple[jax.Array, jax.Array]:
            output = stack.apply(params, X, Context())
            return jnp.square(output).sum(), output

        gradient, output = jax.jit(jax.grad(loss, has_aux=True))(params)
        return output, gradient

    plain = Stack(block=PreNorm(**parts(norm=LayerNorm())), depth=3)
    layout = shapes(plain, X, Context())
    params = variables(plain, X, Context())
    assert all(leaf.shape[0] == 3 for leaf in jax.tree.leaves(params))

    x = X
    for layer in range(3):
        own = jax.tree.map(lambda p: p[layer], params["params"]["block"])  # noqa: B023
        x = PreNorm(**parts(norm=LayerNorm())).apply({"params": own}, x, Context())
    output, gradient = run()
    np.testing.assert_allclose(output, x, atol=1e-6)
    for how in ({"unroll": 9}, {"remat": "full"}, {"remat": "dots", "unroll": 2}):
        other, other_gradient = run(**how)
        np.testing.assert_allclose(other, output, atol=1e-6)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), other_gradient, gradient)


def test_layers_are_drawn_apart_and_their_axis_is_named() -> None:
    boxed = jax.jit(Stack(block=PreNorm(**parts()), depth=2).init)(jax.random.key(1, impl="rbg"), X, Context())
    kernel = boxed["params"]["block"]["mlp"]["up"]["kernel"]
    assert kernel.names == ("layers", "embed", "mlp")
    assert not np.allclose(kernel.unbox()[0], kernel.unbox()[1])


def test_dropout_differs_between_layers_and_stops_outside_training() -> None:
    stack = Stack(block=PreNorm(**parts(dropout=0.5)), depth=2)
    params = variables(stack, X, Context())
    rngs = {"dropout": jax.random.key(2, impl="rbg")}
    apply = jax.jit(stack.apply)
    noisy = apply(params, X, Context(train=True), rngs=rngs)
    assert not np.allclose(noisy, apply(params, X, Context(), rngs=rngs))
    np.testing.assert_array_equal(noisy, apply(params, X, Context(train=True), rngs=rngs))


def test_a_field_that_the_model_sets_cannot_be_set_twice() -> None:
    with pytest.raises(UserError, match=r"config\.model\.attention\.heads: expected nothing: the model sets it"):
        fill(Attention(heads=2), "config.model.attention", heads=4)
