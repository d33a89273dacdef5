"""A recurrent cell over the positions of a sequence, in one direction or in both."""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.models.text.recurrent.cells import Cell


def over_positions(step: type[nn.Module], reverse: bool = False) -> Any:
    """The module class `step`, which is called as step(state, at, fixed), as a loop over the positions.

    `at` is the part at a position of a tree of arrays [B L ...]; `fixed` is the same at every position. The loop
    returns the last state and the outputs [B L ...].
    """
    return nn.scan(
        step,
        variable_broadcast="params",
        split_rngs={"params": False, "dropout": True},
        in_axes=(1, nn.broadcast),
        out_axes=1,
        reverse=reverse,
    )


def unless_padding(
    token_mask: Bool[Array, "B"] | None, new: Float[Array, "B N D"], state: Float[Array, "B N D"]
) -> Float[Array, "B N D"]:
    """The new state, but where a row is at padding: there the state stays. If `token_mask` is None, no row is."""
    return new if token_mask is None else jnp.where(token_mask[:, None, None], new, state)


class Step(nn.Module):
    """One position of `Recurrent`. Parameters: `cell`."""

    cell: Cell

    @nn.compact
    def __call__(self, state: Float[Array, "B N D"], at: tuple, fixed: None) -> tuple[Array, Array]:
        inputs, token_mask = at
        state = unless_padding(token_mask, self.cell(state, inputs), state)
        return state, state[:, 0]


class Recurrent(nn.Module):
    """A cell over the positions. Parameters: `input` [C G D], `steps/cell`.

    Attributes:
      cell: the template of the cell, with the fields that the model sets.
      reverse: whether it runs from the last position to the first.
    """

    cell: Cell
    reverse: bool = False

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B L C"],
        state: Float[Array, "B N D"] | None = None,
        token_mask: Bool[Array, "B L"] | None = None,
    ) -> tuple[Float[Array, "B N D"], Float[Array, "B L D"]]:
        """The last state, and the hidden state after each position.

        Args:
          state: before the first position. If None, zeros.
          token_mask: which positions are not padding. If None, all. Padding anywhere in a row leaves the state.
        """
        inputs = self.cell.inputs(x)
        if state is None:
            state = jnp.zeros((len(x), self.cell.vectors, inputs.shape[-1]), inputs.dtype)
        loop = over_positions(Step, self.reverse)
        return loop(self.cell.clone(parent=None, name=None), name="steps")(state, (inputs, token_mask), None)


class Bidirectional(nn.Module):
    """Two cells that run in opposite directions (Schuster and Paliwal 1997). Parameters: `forward`, `backward`.

    Attributes:
      cell: the template of both cells, with the fields that the model sets.
    """

    cell: Cell

    @nn.compact
    def __call__(
        self, x: Float[Array, "B L C"], token_mask: Bool[Array, "B L"] | None = None
    ) -> tuple[Float[Array, "B L D"], Float[Array, "B L D"]]:
        """The hidden states of both directions at each position. `token_mask`: see `Recurrent`."""
        cell = self.cell.clone(parent=None, name=None)
        _, forward = Recurrent(cell, name="forward")(x, token_mask=token_mask)
        _, backward = Recurrent(cell, reverse=True, name="backward")(x, token_mask=token_mask)
        return forward, backward
