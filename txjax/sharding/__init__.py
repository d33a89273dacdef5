"""Sharding of arrays over devices: the only package that names mesh axes."""

from txjax.axes import Axes
from txjax.sharding.current import (
    active,
    axis_index,
    constrain,
    no_mesh,
    num_shards,
    partition,
    ring_permute,
    shard_map,
    sum_shards,
    unshard_param,
    use_mesh,
    vmap_shards,
    without_axis,
)
from txjax.sharding.mesh import AXES, RULES, Mesh, batch_sharding, is_axes, shardings, stack_shardings

__all__ = [
    "Mesh",
]
