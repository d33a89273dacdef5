"""The stack of blocks: scan, rematerialisation and the pipeline are used here only."""

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
    """`depth` copies of `block`, each with its own parameters, stacked along a leading axis "layers".

    Neither this layout nor the result depends on `remat`, `unroll` or the pipeline.

    Attributes:
      block: one layer; set by the model.
      depth: number of layers; set by the model.
      remat: what is saved for the backward pass, which recomputes the rest: a name of the table `nn.REMAT`, from
        "none" (everything is saved) to "offload_full" (each block's input, in host memory).
      unroll: blocks in one turn of the loop. If None, the backend's default (`backend.unroll`).
      microbatches: parts of the batch that pass through the pipeline in turn, if the mesh has one. If None, as many
        as it has stages. More microbatches shrink the bubble (`pipeline.Schedule.idle`).
      rounds: how often each microbatch passes each stage of the pipeline. More rounds shrink the bubble too.
    """

    block: Block | None = None
    depth: int | None = None
    remat: str = config_field("none", choices=tuple(REMAT))
    unroll: int | None = config_field(None, at_least=1)
    microbatches: int | None = config_field(None, at_least=1)
    rounds: int = config_field(1, at_least=1)

    def schedule(self, stages: int) -> Schedule:
        """The pipeline schedule for this many stages. Raises UserError if they don't divide the layers."""
        assert self.depth is not None
        return Schedule(self.depth, stages, self.microbatches or stages, self.rounds)

    @nn.compact
    def __call__(self, x: Float[Array, "B L D"], context: LayerContext) -> Float[Array, "B L D"]:
        """The residual stream after all blocks: the same shape and dtype."""
        assert self.block is not None and self.depth is not None

        def layer(
            block: Block, x: jax.Array, context: LayerContext, depth_fraction: jax.Array
        ) -> tuple[jax.Array, None]:
            return block(checkpoint_name(x, "stream"), context, depth_fraction), None

        # Initialisation takes no time but for compiling it.
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
        """The `jax.checkpoint` policy. If None, all results are saved."""
        remat = REMAT[self.remat]
        if remat.host:
            backend.need_host_memory("config.model.stack.remat")
        return remat.policy
