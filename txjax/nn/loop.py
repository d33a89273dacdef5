"""A loop over calls of one module."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn

from txjax.types import PyTree


def loop(module: Any, turn: Callable[..., tuple[PyTree, PyTree]], state: PyTree, xs: PyTree) -> tuple[PyTree, PyTree]:
    """`jax.lax.scan` with the same parameters in every turn: (module, state, x) -> (state, y).

    Args:
      module: a bound one, whose methods the turn may call.
    """
    return nn.scan(
        turn,
        variable_broadcast=nn.DenyList("intermediates"),
        variable_axes={"intermediates": 0},
        split_rngs={"dropout": True},
        check_constancy_invariants=False,
    )(module, state, xs)
