"""Blocks on top of each other. The only module that knows scan and rematerialisation."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax import backend
from txjax.nn.attention import Context
from txjax.nn.block import Block
from txjax.types import setting

# What the backward pass finds in memory; it computes the rest again.
_REMAT: dict[str, Callable[..., Any] | None] = {
    "none": None,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
    "full": jax.checkpoint_policies.nothing_saveable,
}


class Stack(nn.Module):
    """`depth` copies of `block` with parameters of their own, stacked along a leading axis "layers".

    That layout, and the result, don't depend on how the loop is run.

    Attributes:
      block: one layer; set by the model.
      depth: how many; set by the model.
      remat: "none" keeps all activations for the backward pass, "dots" the results of matrix products with
        parameters, "full" only each block's input (Chen et al. 2016).
      unroll: blocks in one turn of the loop; None leaves it to the backend (`backend.unroll`).
    """

    block: Block | None = None
    depth: int | None = None
    remat: str = setting("none", choices=tuple(_REMAT))
    unroll: int | None = setting(None, at_least=1)

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: Context) -> Float[Array, "B L D"]:
        """The stream after all blocks: the same shape and dtype."""
        assert self.block is not None and self.depth is not None

        def layer(block: Block, x: jax.Array, context: Context, height: jax.Array) -> tuple[jax.Array, None]:
            return block(x, context, height), None

        # Drawing parameters takes no time but for compiling it.
        unroll = 1 if self.is_initializing() else self.unroll or backend.unroll(self.depth)

        if (policy := _REMAT[self.remat]) is not None:
            layer = nn.remat(layer, prevent_cse=False, policy=policy)
        loop = nn.scan(
            layer,
            variable_axes={"params": 0, "cache": 0, "intermediates": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=(nn.broadcast, 0),
            length=self.depth,
            unroll=min(unroll, self.depth),
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        x, _ = loop(self.block, x, context, jnp.linspace(0.0, 1.0, self.depth))
        return x
