"""A loop over calls of one module."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

from txjax.nn.parameters.remat import Policy, needs_barriers
from txjax.types import PyTree


def loop(
    module: Any,
    turn: Callable[..., tuple[PyTree, PyTree]],
    state: PyTree,
    xs: PyTree,
    policy: Policy | None = None,
) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` with the same parameters in every turn: (module, state, x) -> (state, y).

    Args:
      module: a bound one, whose methods the turn may call.
      policy: what is saved of a turn for the backward pass, besides its state. If None, everything.
    """
    if policy is not None:
        turns = len(jax.tree.leaves(xs)[0])
        turn = nn.remat(turn, prevent_cse=needs_barriers(turns), policy=policy)
    return nn.scan(
        turn,
        variable_broadcast=nn.DenyList("intermediates"),
        variable_axes={"intermediates": 0},
        split_rngs={"dropout": True},
        check_constancy_invariants=False,
    )(module, state, xs)
