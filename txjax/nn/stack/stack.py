"""The stack of blocks: scan, rematerialisation and the pipeline are used here only."""

import flax.linen as nn
import jax
import jax.numpy as jnp

from txjax import backend
from txjax.errors import UserError
from txjax.nn.parameters.remat import REMAT, checkpoint_name, needs_barriers, remat_policy
from txjax.nn.stack.block import Block
from txjax.nn.stack.chosen_layers import layer_numbers
from txjax.nn.stack.layer_kinds import check_turns, run_layer_kinds
from txjax.nn.stack.pipeline import Schedule, pipelined
from txjax.sharding import num_shards
from txjax.types import PyTree, config_field


class Stack(nn.Module):
    """`depth` layers, their parameters stacked along a leading axis "layers".

    Neither this layout nor the result depends on `remat`, `unroll` or the pipeline.

    Attributes:
      block: one layer; set by the model. Several blocks, whose parameters have equal shapes, take turns: layer i is of
        kind i modulo their number.
      depth: number of layers; set by the model.
      fractions: of the model's depth, at the first and at the last layer; set by a model with several stacks after each
        other. If None, 0 and 1. (`Block.drop_path` grows with it.)
      groups: sets of parameters, each shared by depth / groups consecutive layers (Lan et al. 2020); 1 is one set for
        all. If None, every layer has its own.
      remat: what is saved for the backward pass, which recomputes the rest: a name of the table `nn.REMAT`, from
        "none" (everything is saved) to "offload_full" (each block's input, in host memory).
      unroll: blocks in one turn of the loop. If None, the backend's default (`backend.unroll`).
      microbatches: parts of the batch that pass through the pipeline in turn, if the mesh has one. If None, as many
        as it has stages. More microbatches shrink the bubble (`pipeline.Schedule.idle`).
      rounds: how often each microbatch passes each stage of the pipeline. More rounds shrink the bubble too.
      outputs: the layers whose streams are returned, side by side along the width: 0 is the first, -1 the last. The
        layers behind them have parameters, and are not run. If None, the last one's.
    """

    block: Block | tuple[Block, ...] | None = None
    depth: int | None = None
    fractions: tuple[float, float] | None = None
    groups: int | None = config_field(None, at_least=1)
    remat: str = config_field("none", choices=tuple(REMAT))
    unroll: int | None = config_field(None, at_least=1)
    microbatches: int | None = config_field(None, at_least=1)
    rounds: int = config_field(1, at_least=1)
    outputs: tuple[int, ...] | None = None

    def schedule(self, stages: int) -> Schedule:
        """The pipeline schedule for this many stages. Raises UserError if they don't divide the layers."""
        assert self.depth is not None
        return Schedule(self.depth, stages, self.microbatches or stages, self.rounds)

    @nn.nowrap
    def depth_fractions(self, count: int) -> jax.Array:
        """The fraction of the model's depth at each of `count` layers, float32."""
        return jnp.linspace(*(self.fractions or (0.0, 1.0)), count)

    @nn.compact
    def __call__(self, x: PyTree, context: PyTree, every: bool = False) -> PyTree:
        """The stream after all blocks: the same structure, shapes and dtypes as `x`; of several `outputs`, wider.

        Args:
          x: what every block takes and returns: the residual stream [B L D], or a tree of several streams.
          context: what every block takes beside it: a `LayerContext`, or a tree of those of several streams.
          every: whether to return the pair of that and the streams after each layer, [depth ...] each.

        Raises:
          UserError: the depth is not a multiple of the kinds of blocks or of the groups, or the mesh has a pipeline and
            the stack is one that a pipeline can't run.
        """
        assert self.block is not None and self.depth is not None
        kinds = self.block if isinstance(self.block, tuple) else (self.block,)
        groups = self.groups or self.depth
        if len(kinds) > 1 or self.groups:
            check_turns(self.depth, len(kinds), groups)
        outputs = (self.depth - 1,) if self.outputs is None else layer_numbers(self)
        chosen = outputs != (self.depth - 1,)
        every = every or len(outputs) > 1

        def layer(block: Block, x: PyTree, context: PyTree, depth_fraction: jax.Array) -> tuple[PyTree, PyTree | None]:
            x = block(jax.tree.map(lambda x: checkpoint_name(x, "stream"), x), context, depth_fraction)
            return x, x if every else None

        policy = remat_policy(self.remat)
        # Initialisation takes no time but for compiling it.
        default = backend.unroll(self.depth, policy is not None)
        unroll = 1 if self.is_initializing() else self.unroll or default
        stacked = not isinstance(self.variables.get("params", {}).get("block"), tuple)  # else `unstacked`
        plain = stacked and len(kinds) == 1 and groups == self.depth
        if chosen and not (plain and isinstance(x, jax.Array) and num_shards("layers") == 1):
            expected = "None for shared layers, several kinds of layers, several streams or a pipeline"
            raise UserError("config.model.stack.outputs", expected, self.outputs)
        if (stages := num_shards("layers")) > 1:
            schedule = self.schedule(stages)
            if not plain or every or not isinstance(x, jax.Array):
                expected = "1 for shared layers, several kinds of layers or several streams"
                raise UserError("config.mesh.pipeline", expected, stages)
            if not self.is_initializing() and context.index is None:
                return pipelined(self, x, context, schedule, unroll, policy)
        if not plain and not self.is_initializing():
            return run_layer_kinds(self, kinds, groups, layer, x, context, unroll, policy)

        count = max(outputs) + 1 if chosen and not self.is_initializing() else groups
        unroll = min(unroll, count)
        if policy is not None:
            barriers = needs_barriers(count // unroll, unroll)
            layer = nn.remat(layer, prevent_cse=barriers, policy=policy)
        loop = nn.scan(
            layer,
            variable_axes={True: 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=(nn.broadcast, 0),
            length=count,
            unroll=unroll,
            metadata_params={nn.PARTITION_NAME: "layers"},
            check_constancy_invariants=False,  # which would trace a layer once more
        )
        if count < groups:
            loop = nn.map_variables(loop, "params", lambda params: jax.tree.map(lambda x: x[:count], params))
        block = (
            kinds[0].clone(parent=self, name="block", _deep_clone=True) if isinstance(self.block, tuple) else self.block
        )
        x, streams = loop(block, x, context, self.depth_fractions(groups)[:count])
        if chosen:
            return x if streams is None else jnp.concatenate([streams[i] for i in outputs], -1)
        return (x, streams) if every else x
