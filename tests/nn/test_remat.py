"""Every remat policy gives the same gradients, and saves what its name says, on the device or the host."""

import functools
import math
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.text.deberta import apply_again
from txjax.nn import MLP, REMAT, Attention, KernelInit, LayerContext, PreNorm, RMSNorm, Stack
from txjax.parametrization import Scaling

from helpers.arrays import numbers, variables

B = 3
L = 16
D = 8
F = 20
DEPTH = 12
# Numbers a token and layer: one key head of 4 serves two query heads.
SIZES = {"stream": D, "query": D, "key": 4, "value": 4, "attended": D, "attention": D, "hidden": F}
KEPT = {
    "minimal": sum(SIZES.values()),
    "dots": sum(SIZES.values()) - SIZES["attended"],
    "attention": sum(SIZES[name] for name in ("stream", "query", "key", "value", "attended")),
    "full": D,
    "offload": sum(SIZES.values()),
    "offload_full": D,
}
X = jnp.asarray(numbers(B, L, D))
KEY = {"dropout": jax.random.key(0, impl="rbg")}


def loss(remat: str, unroll: int | None = 1, depth: int = DEPTH) -> Any:
    drawn = {"kernel_init": KernelInit()}
    attention, mlp = Attention(heads=2, kv_heads=1, **drawn), MLP(hidden=F, **drawn)
    block = PreNorm(mixer=attention, mlp=mlp, norm=RMSNorm(), dropout=0.1, scaling=Scaling())
    stack = Stack(block=block, depth=depth, remat=remat, unroll=unroll)
    return stack, lambda params: jnp.square(stack.apply(params, X, LayerContext(train=True), rngs=KEY)).mean()


@functools.cache
def params(depth: int = DEPTH) -> Any:
    return variables(loss("none", depth=depth)[0], X, LayerContext())


@functools.cache
def program(remat: str, unroll: int | None = 1, depth: int = DEPTH) -> Any:
    return jax.jit(jax.grad(loss(remat, unroll, depth)[1])).lower(params(depth)).compile()


@pytest.mark.slow
@pytest.mark.parametrize("remat", [name for name in REMAT if name != "none"])
def test_gradients_are_those_without(remat: str) -> None:
    wanted, got = program("none")(params()), program(remat)(params())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), got, wanted)


@pytest.mark.parametrize("remat", [name for name in REMAT if name != "none"])
def test_a_policy_saves_what_its_name_says(remat: str) -> None:
    traced = jax.jit(lambda p: jax.vjp(loss(remat)[1], p)[1]).trace(params())
    kept = [x for x in jax.tree.leaves(traced.out_info) if x.shape[:2] in ((DEPTH, B), (DEPTH, B * L))]
    assert sum(math.prod(x.shape) for x in kept) == DEPTH * B * L * KEPT[remat]
    assert ("<host>" in str(traced.jaxpr)) == REMAT[remat].host


def test_policies_are_in_order_of_memory() -> None:
    """Policies that offload to host memory are excluded: a CPU's memory is the host's."""
    sizes = {name: program(name).memory_analysis().temp_size_in_bytes for name in REMAT if not REMAT[name].host}
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True), sizes


def test_layers_that_are_no_loop_by_default_are_rematerialised() -> None:
    """The compiled program has less than half the temporaries, and the same gradients."""
    none, full = (program(remat, None, 4) for remat in ("none", "full"))
    sizes = [each.memory_analysis().temp_size_in_bytes for each in (none, full)]
    assert sizes[1] < sizes[0] / 2, sizes
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6), *(each(params(4)) for each in (none, full))
    )


def test_unrolled_layers_are_recomputed() -> None:
    """The compiler does not take results of the forward pass for those of the backward pass."""
    none, full = (len(re.findall(r" dot\(", program(remat, 4, 4).as_text())) for remat in ("none", "full"))
    products = 7  # of one layer, without the last one, whose result no gradient needs
    assert full - none == 4 * products


@pytest.mark.parametrize(("turns", "layers", "needed"), [(12, 1, False), (1, 1, True), (1, 12, True), (6, 2, True)])
def test_barriers_where_the_backward_pass_is_no_loop_of_single_layers(turns: int, layers: int, needed: bool) -> None:
    unroll, depth = layers, turns * layers
    lowered = [jax.jit(jax.grad(loss(r, unroll, depth)[1])).lower(params(depth)).as_text() for r in ("none", "full")]
    none, full = (text.count("optimization_barrier") for text in lowered)
    assert (full > none) == needed


class Twice(nn.Module):
    """A stack, and its last layer once more."""

    stack: Stack

    def __call__(self, x: jax.Array) -> jax.Array:
        return apply_again(self.stack, -1, self.stack(x, LayerContext()), LayerContext())


def test_one_more_pass_is_rematerialised() -> None:
    def kept(remat: str) -> int:
        model = Twice(loss(remat, depth=1)[0])
        shapes = jax.eval_shape(model.init, jax.random.key(0), X)
        saved = jax.eval_shape(lambda p: jax.vjp(lambda p: model.apply(p, X), p)[1], shapes)
        return sum(x.size for x in jax.tree.leaves(saved) if x.ndim > 2 and x.shape[-3:-1] == (B, L))

    assert kept("full") == 2 * B * L * D < kept("none")


def test_checkpoint_names_do_not_change_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a policy the program's text equals that without names, but for the numbers of functions in JAX 0.8.0."""

    def program() -> str:
        text = jax.jit(jax.grad(loss("none")[1])).lower(params()).as_text()
        return re.sub(r"(@\w+)_\d+\b", r"\1", text)

    named = program()
    for module in ("attention.mixer", "layers.mlp", "stack.stack"):
        monkeypatch.setattr(f"txjax.nn.{module}.checkpoint_name", lambda x, name: x)
    assert program() == named
