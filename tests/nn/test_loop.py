"""A loop over calls of a module has the gradients of the calls one after the other, and rematerialises on request."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from txjax.nn import REMAT
from txjax.nn.stack.loop import loop

from helpers.arrays import numbers

TURNS = 8
X = jnp.asarray(numbers(64, 32))


class Repeated(nn.Module):
    """x -> tanh(...tanh(tanh(x . kernel + i) . kernel + i)) in every turn i."""

    remat: str = "none"
    looped: bool = True

    def setup(self) -> None:
        self.kernel = self.param("kernel", nn.initializers.normal(0.3), (32, 32))

    def turn(self, x: jax.Array, number: jax.Array) -> tuple[jax.Array, jax.Array]:
        for _ in range(4):
            x = jnp.tanh(x @ self.kernel + number)
        return x, x.sum()

    def __call__(self, x: jax.Array) -> tuple[jax.Array, Any]:
        xs = jnp.arange(TURNS) / TURNS
        if self.looped:
            return loop(self, Repeated.turn, x, xs, REMAT[self.remat].policy)
        sums = []
        for number in xs:
            x, y = self.turn(x, number)
            sums.append(y)
        return x, jnp.stack(sums)


def test_rematerialised_turns_have_the_same_gradients_in_less_memory() -> None:
    params = jax.jit(Repeated().init)(jax.random.key(0), X)
    found, memory = {}, {}
    for remat, looped in (("none", False), ("none", True), ("full", True)):
        model = Repeated(remat, looped)

        def loss(params: Any, model: nn.Module = model) -> jax.Array:
            x, sums = model.apply(params, X)
            return jnp.square(x).mean() + sums.mean()

        compiled = jax.jit(jax.value_and_grad(loss)).lower(params).compile()
        found[remat, looped] = compiled(params)
        memory[remat, looped] = compiled.memory_analysis().temp_size_in_bytes
    wanted = found.pop(("none", False))
    for value in found.values():
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), value, wanted)
    saved = memory["none", True] - memory["full", True]
    assert saved > 2.5 * TURNS * X.nbytes  # of four results of each turn, three are computed again
