"""Recurrent cells: one step from a state and an input to the next state."""

from typing import ClassVar

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.layers.linear import Linear
from txjax.nn.parameters.init import KernelInit
from txjax.types import config_field


class Cell(nn.Module):
    """Base of recurrent cells.

    A state is an array [B N D] of N vectors: first the hidden state, which other layers read, then what the cell
    keeps for itself. A cell gets its input's product: a layer computes it for all positions at once (`product`).

    Attributes:
      width, use_bias, kernel_init: set by the model.
      gates: G, vectors of the input's product.
      vectors: N, vectors of the state.
    """

    width: int | None = None
    use_bias: bool | None = None
    kernel_init: KernelInit | None = None
    gates: ClassVar[int]
    vectors: ClassVar[int] = 1

    def __call__(self, state: Float[Array, "B N D"], inputs: Float[Array, "B G D"]) -> Float[Array, "B N D"]:
        """The next state.

        Args:
          inputs: the sum of the products of all inputs.
        """
        raise NotImplementedError

    @nn.nowrap
    def product(
        self,
        x: Float[Array, "*batch C"],
        name: str,
        axis: str = "width",
        use_bias: bool = False,
        gates: int | None = None,
    ) -> Float[Array, "*batch G D"]:
        """x times a kernel [C G D], with all gates in one product. A parameter of the module that is called.

        Args:
          axis: logical name of C: inside a loop `width`, which no mesh shards by default; outside `embed`.
          gates: G. If None, all.
        """
        assert self.width and self.kernel_init
        size = gates or self.gates, self.width
        return Linear(size, ("gates", "width"), (axis,), use_bias, kernel_init=self.kernel_init, name=name)(x)

    @nn.nowrap
    def inputs(self, x: Float[Array, "*batch C"]) -> Float[Array, "*batch G D"]:
        """The product of the inputs at all positions, with the bias if there is one. Parameter `input`."""
        return self.product(x, "input", "embed", bool(self.use_bias))

    @nn.nowrap
    def start(self, hidden: Float[Array, "B D"]) -> Float[Array, "B N D"]:
        """The state with this hidden state; the other vectors are zero."""
        return jnp.pad(hidden[:, None], ((0, 0), (0, self.vectors - 1), (0, 0)))


class GRU(Cell):
    """The gated recurrent unit (Cho et al. 2014): h' = (1 - z) n + z h, with gates r and z and the candidate n.

    Parameters: `recurrent` [D G D] of r, z and, if the reset gate comes after its product, n; else `candidate` [D D].

    In Bahdanau et al. 2015, z is what is 1 - z here: the same unit, with the parameters of that gate negated.

    Attributes:
      reset: whether the reset gate is applied to the state "before" its product, n = tanh(W x + U (r h)) (Cho et al.,
        Bahdanau et al.), or "after" it, n = tanh(W x + r (U h + b)) (PyTorch, cuDNN), which is one product a step.
    """

    reset: str = config_field("before", choices=("before", "after"))
    gates: ClassVar[int] = 3

    @nn.compact
    def __call__(self, state: Float[Array, "B 1 D"], inputs: Float[Array, "B 3 D"]) -> Float[Array, "B 1 D"]:
        hidden = state[:, 0]
        before = self.reset == "before"
        if before:
            product = self.product(hidden, "recurrent", gates=2)
        else:
            product = self.product(hidden, "recurrent", use_bias=bool(self.use_bias))
        reset, update = (nn.sigmoid(inputs[:, i] + product[:, i]) for i in range(2))
        inner = self.product(reset * hidden, "candidate", gates=1)[:, 0] if before else reset * product[:, 2]
        new = jnp.tanh(inputs[:, 2] + inner)
        return ((1 - update) * new + update * hidden)[:, None]


class LSTM(Cell):
    """Long short-term memory with a forget gate (Gers et al. 2000): c' = f c + i g, h' = o tanh(c').

    The state is (h, c). Parameters: `recurrent` [D 4 D] of the gates i, f, g, o.
    """

    gates: ClassVar[int] = 4
    vectors: ClassVar[int] = 2

    @nn.compact
    def __call__(self, state: Float[Array, "B 2 D"], inputs: Float[Array, "B 4 D"]) -> Float[Array, "B 2 D"]:
        total = inputs + self.product(state[:, 0], "recurrent")
        enter, forget, leave = (nn.sigmoid(total[:, i]) for i in (0, 1, 3))
        memory = forget * state[:, 1] + enter * jnp.tanh(total[:, 2])
        return jnp.stack([leave * jnp.tanh(memory), memory], axis=1)
