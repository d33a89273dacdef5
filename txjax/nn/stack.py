"""Blocks on top of each other. The only module that knows scan and rematerialisation."""

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax import backend
from txjax.nn.attention import LayerContext
from txjax.nn.aux_outputs import AUX_COLLECTIONS
from txjax.nn.block import Block
from txjax.nn.pipeline import Schedule, pipelined
from txjax.nn.remat import REMAT, checkpoint_name
from txjax.sharding import num_shards
from txjax.types import config_field


class Stack(nn.Module):
    """`depth` copies of `block` with parameters of their own, stacked along a leading axis "layers".

    That layout, and the result, don't depend on how the loop is run.

    Attributes:
      block: one layer; set by the model.
      depth: how many; set by the model.
      remat: what is kept for the backward pass, which computes the rest again: a name of the table `nn.REMAT`, from
        "none" (everything is kept) to "offload_full" (each block's input, in the host's memory).
      unroll: blocks in one turn of the loop; None leaves it to the backend (`backend.unroll`).
      microbatches: parts of the batch that pass through the pipeline in turn, where the mesh has one; None = as many
        as it has stages. More of them leave a stage idle for less of the time (`pipeline.Schedule.idle`).
      rounds: how often each part comes by each stage of the pipeline. More rounds leave a stage idle for less, too.
    """

    block: Block | None = None
    depth: int | None = None
    remat: str = config_field("none", choices=tuple(REMAT))
    unroll: int | None = config_field(None, at_least=1)
    microbatches: int | None = config_field(None, at_least=1)
    rounds: int = config_field(1, at_least=1)

    def schedule(self, stages: int) -> Schedule:
        """How the layers are run on this many stages. Raises UserError where they can't be."""
        assert self.depth is not None
        return Schedule(self.depth, stages, self.microbatches or stages, self.rounds)

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """The stream after all blocks: the same shape and dtype."""
        assert self.block is not None and self.depth is not None

        def layer(
            block: Block, x: jax.Array, context: LayerContext, depth_fraction: jax.Array
        ) -> tuple[jax.Array, None]:
            return block(checkpoint_name(x, "stream"), context, depth_fraction), None

        # Drawing parameters takes no time but for compiling it.
        unroll = 1 if self.is_initializing() else self.unroll or backend.unroll(self.depth)
        policy = self._policy()
        if (stages := num_shards("layers")) > 1:
            schedule = self.schedule(stages)
            if not self.is_initializing() and context.index is None:
                return pipelined(self, x, context, schedule, unroll, policy)

        if policy is not None:
            layer = nn.remat(layer, prevent_cse=False, policy=policy)
        loop = nn.scan(
            layer,
            variable_axes={name: 0 for name in ("params", "cache", "intermediates", *AUX_COLLECTIONS)},
            split_rngs={"params": True, "dropout": True},
            in_axes=(nn.broadcast, 0),
            length=self.depth,
            unroll=min(unroll, self.depth),
            metadata_params={nn.PARTITION_NAME: "layers"},
        )
        x, _ = loop(self.block, x, context, jnp.linspace(0.0, 1.0, self.depth))
        return x

    def _policy(self) -> Callable[..., bool] | None:
        """What says which results the backward pass finds in memory; None: all."""
        remat = REMAT[self.remat]
        if remat.host:
            backend.need_host_memory("config.model.stack.remat")
        return remat.policy
