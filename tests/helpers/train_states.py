"""Small train states, for tests of checkpoints."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from txjax.checkpoint import Store
from txjax.types import TrainState, flat_paths


def make(step: int, fsdp: int | None = None) -> TrainState:
    """A state whose weights are sharded over this many devices. If None, over all."""
    devices = np.array(jax.devices())
    mesh = jax.sharding.Mesh(devices.reshape(fsdp or len(devices), -1), ("fsdp", "rest"))
    place = NamedSharding(mesh, PartitionSpec("fsdp"))
    weight = jax.device_put(jax.random.normal(jax.random.key(step), (8, 4)), place)
    return TrainState(
        step=jnp.int32(step),
        params={"layer": {"kernel": weight}},
        frozen={"head": {"bias": jnp.arange(3.0)}},
        model_state={},
        opt_state=({"layer": {"kernel": weight * 2}}, jnp.int32(step)),
        skipped=jnp.zeros((2,), jnp.int32),
    )


def abstract(state: TrainState) -> TrainState:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state)


def assert_same(a: TrainState, b: TrainState) -> None:
    for name, x in flat_paths(a).items():
        np.testing.assert_array_equal(np.asarray(x), np.asarray(flat_paths(b)[name]), err_msg=name)


def save(store: Store, step: int) -> None:
    store.save(step, make(step), {"data": {}, "metrics": {"eval/valid/loss": 9.0}})
    store.wait()
