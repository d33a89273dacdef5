"""Pipeline parallelism: layers on different devices, with microbatches passing through them in turn."""

import dataclasses
from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax import sharding
from txjax.errors import UserError
from txjax.nn.parameters.active_adapter import module_path_prefix
from txjax.nn.parameters.aux_outputs import AUX_COLLECTIONS
from txjax.nn.parameters.remat import Policy, checkpoint_name, needs_barriers
from txjax.sharding import constrain
from txjax.types import PyTree

# (a layer's arrays, x [b L D], context, number of the part) -> (x, what the layer sows, each array [b ...])
Layer = Callable[[PyTree, jax.Array, PyTree, jax.Array], tuple[jax.Array, PyTree]]


@dataclasses.dataclass(frozen=True)
class Schedule:
    """The pipeline schedule (GPipe, Huang et al. 2019; with rounds: Narayanan et al. 2021, 2.2).

    The layers are cut into stages * rounds groups of consecutive layers; group g is on stage g % stages. At tick t,
    stage s has item t - s: item i is microbatch i % parts in round i // parts. So a step takes
    rounds * parts + stages - 1 ticks, of which a stage is idle for stages - 1.

    Attributes:
      depth: layers.
      stages: shards of the layers.
      parts: microbatches.
      rounds: how often each microbatch passes each stage.
    """

    depth: int
    stages: int
    parts: int
    rounds: int = 1

    def __post_init__(self) -> None:
        groups = self.stages * self.rounds
        if self.depth % groups:
            many = f"mesh.pipeline * stack.rounds = {self.stages} * {self.rounds}"
            raise UserError("config.model.depth", f"a multiple of {many}", self.depth)
        if self.rounds > 1 and self.parts < self.stages:
            raise UserError(
                "config.model.stack.microbatches",
                f"at least mesh.pipeline = {self.stages}, for more rounds than one",
                self.parts,
            )

    @property
    def ticks(self) -> int:
        """Ticks of a step."""
        return self.rounds * self.parts + self.stages - 1

    @property
    def idle(self) -> float:
        """The fraction of its ticks for which a stage is idle: the bubble."""
        return (self.stages - 1) / self.ticks

    def cut(self, x: jax.Array) -> jax.Array:
        """[B ...] -> [parts B/parts ...], each part strided, so that no example moves to another device."""
        return x.reshape(-1, self.parts, *x.shape[1:]).swapaxes(0, 1)

    def join(self, x: jax.Array) -> jax.Array:
        """[parts B/parts ...] -> [B ...]"""
        return x.swapaxes(0, 1).reshape(-1, *x.shape[2:])

    def group(self, layers: PyTree) -> PyTree:
        """[depth ...] -> [stages rounds depth/stages/rounds ...]."""

        def one(x: jax.Array) -> jax.Array:
            x = x.reshape(self.rounds, self.stages, -1, *x.shape[1:]).swapaxes(0, 1)
            return constrain(x, "layers") if jnp.issubdtype(x.dtype, jnp.inexact) else x

        return jax.tree.map(one, layers)


def pipelined(
    stack: nn.Module, x: Float[Array, "B L D"], context: PyTree, schedule: Schedule, unroll: int, policy: Policy | None
) -> Float[Array, "B L D"]:
    """The residual stream after all blocks of an initialised `Stack`. Dropout is drawn for each microbatch.

    Args:
      context, schedule, unroll: see `flow`.
      policy: which results are saved for the backward pass. If None, all.
    """
    if state := sorted(set(stack.variables) - {"params", "cache", "intermediates", *AUX_COLLECTIONS}):
        raise UserError("config.mesh.pipeline", f"1 for blocks with state ({', '.join(state)})", schedule.stages)
    block = stack.block.clone(parent=None, name="block")
    sown = [name for name in AUX_COLLECTIONS if stack.is_mutable_collection(name)]
    keys = jax.random.split(stack.make_rng("dropout"), schedule.depth) if stack.has_rng("dropout") else None
    layers = (stack.variables["params"]["block"], stack.depth_fractions(schedule.depth), keys)

    def layer(layer: PyTree, x: jax.Array, context: PyTree, part: jax.Array) -> tuple[jax.Array, PyTree]:
        params, depth_fraction, key = layer
        rngs = {} if key is None else {"dropout": jax.random.fold_in(key, part)}
        with module_path_prefix((*stack.path, "block")):
            return block.apply(
                {"params": params}, checkpoint_name(x, "stream"), context, depth_fraction, rngs=rngs, mutable=sown
            )

    unroll = min(unroll, schedule.depth // schedule.stages)
    if policy is not None:
        layer = jax.checkpoint(layer, prevent_cse=needs_barriers(schedule.ticks, unroll), policy=policy)
    x, sown = flow(layer, layers, x, context, schedule, unroll)
    for name, tree in sown.items():
        stack.put_variable(name, "block", tree)
    return x


def flow(
    layer: Layer, layers: PyTree, x: Float[Array, "B L D"], context: PyTree, schedule: Schedule, unroll: int = 1
) -> tuple[Float[Array, "B L D"], PyTree]:
    """x after all layers, and what each layer sows for each example: arrays [depth B ...].

    One SPMD program: the inputs of all stages are one array, [stages b L D], which is shifted by one stage a tick.

    Args:
      layer: one layer.
      layers: its arrays, each with a leading dimension for the depth.
      context: arrays; those with a leading dimension B are cut into microbatches like x.
      unroll: layers in one turn of a stage's loop.
    """
    plan = schedule
    batch = len(x)
    rows = sharding.num_shards("batch") // sharding.num_shards("layers")
    if batch % (plan.parts * rows):
        raise UserError(
            "config.batch_size",
            f"a multiple of model.stack.microbatches = {plan.parts} times the {rows} parts of the batch inside the "
            "pipeline",
            batch,
        )
    stages = jnp.arange(plan.stages, dtype=jnp.int32)
    grouped = plan.group(layers)
    arrays, form = jax.tree.flatten(context)
    cut = [batch > 1 and a.ndim > 0 and len(a) == batch for a in arrays]
    with sharding.without_axis("layers"):
        # Every stage gets all microbatches and indexes them by tick.
        waiting = constrain(plan.cut(constrain(x, "batch")), None, *_STREAM)
        arrays = [plan.cut(constrain(a, "batch")) if c else a for a, c in zip(arrays, cut, strict=True)]

    def stage(own_arrays: PyTree, x: jax.Array, item: jax.Array) -> tuple[jax.Array, PyTree]:
        part = item % plan.parts
        turn = item // plan.parts
        own_arrays = jax.tree.map(lambda a: a[0] if plan.rounds == 1 else _take(a, turn), own_arrays)
        mine = jax.tree.unflatten(form, [_take(a, part) if c else a for a, c in zip(arrays, cut, strict=True)])
        return jax.lax.scan(lambda x, one: layer(one, constrain(x, *_STREAM), mine, part), x, own_arrays, unroll=unroll)

    def tick(carry: tuple[jax.Array, jax.Array], now: jax.Array) -> tuple[tuple[jax.Array, jax.Array], PyTree]:
        inputs, waiting = carry
        inputs = jnp.where(_only(stages == 0, inputs), _take(waiting, now % plan.parts)[None], inputs)
        # The output of a stage without an item is not used.
        items = jnp.clip(now - stages, 0, plan.rounds * plan.parts - 1)
        inputs, sown = sharding.vmap_shards(stage, "layers")(grouped, inputs, items)
        done = jnp.where(_only(stages == plan.stages - 1, inputs), inputs, 0).sum(0)
        put = jax.lax.dynamic_update_index_in_dim(waiting, done, (now - plan.stages + 1) % plan.parts, 0)
        return (jnp.roll(inputs, 1, 0), jnp.where(now >= plan.stages - 1, put, waiting)), sown

    inputs = jnp.zeros((plan.stages, *waiting.shape[1:]), x.dtype)
    (_, waiting), sown = jax.lax.scan(tick, (inputs, waiting), jnp.arange(plan.ticks, dtype=jnp.int32))
    with sharding.without_axis("layers"):
        out = constrain(plan.join(waiting), *_STREAM)
    return constrain(out, *_STREAM), jax.tree.map(lambda a: _in_order(a, plan), sown)


_STREAM = ("batch", "length", "width")


def _take(x: jax.Array, index: jax.Array) -> jax.Array:
    return jax.lax.dynamic_index_in_dim(x, index, keepdims=False)


def _only(chosen: Bool[Array, "S"], x: jax.Array) -> jax.Array:
    return chosen.reshape(-1, *(1,) * (x.ndim - 1))


def _in_order(sown: jax.Array, plan: Schedule) -> jax.Array:
    """What was sown by tick and stage, [ticks stages depth/groups b ...] -> by layer and example, [depth B ...]."""
    rounds, stages, parts = jnp.ogrid[: plan.rounds, : plan.stages, : plan.parts]
    sown = jnp.moveaxis(sown[rounds * plan.parts + parts + stages, stages], 2, 3)
    return jax.vmap(plan.join)(sown.reshape(plan.depth, plan.parts, *sown.shape[4:]))
