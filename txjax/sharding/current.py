"""The active mesh while tracing: queries and constraints of layers, by logical axes only."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from txjax.scoped import Scoped
from txjax.sharding.mesh import Mesh, count_shards
from txjax.types import PyTree

_active = Scoped[tuple[jax.sharding.Mesh, Mesh] | None]("mesh", None)


@contextlib.contextmanager
def use_mesh(mesh: Mesh, devices: Sequence[jax.Device] | None = None) -> Iterator[jax.sharding.Mesh]:
    """Makes this mesh and its rules active for everything traced inside. `devices`: see `Mesh.build`."""
    built = mesh.build(devices)
    with _active.within((built, mesh)), jax.set_mesh(built):
        yield built


def no_mesh() -> contextlib.AbstractContextManager[Any]:
    """Deactivates the mesh for everything traced inside: no sharding constraints."""
    return _active.within(None)


def without_axis(axis: str) -> contextlib.AbstractContextManager[Any]:
    """Removes the mesh axes of `axis` from all rules inside, where one shard of `axis` is traced."""
    state = _active.get()
    return _active.within(state and (state[0], state[1].without(axis)))


def vmap_shards(function: Callable[..., Any], axis: str, in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """`jax.vmap` over leading dimensions named `axis`: every device computes its own shards."""
    state = _active.get()
    split = () if state is None else state[1].table().get(axis, ())

    def part(*args: Any) -> Any:
        with without_axis(axis):
            return function(*args)

    return jax.vmap(part, in_axes, out_axes, spmd_axis_name=split or None)


def active() -> jax.sharding.Mesh | None:
    """The active mesh, None without one."""
    state = _active.get()
    return state and state[0]


def partition(shape: tuple[int, ...], *axes: str | None) -> PartitionSpec:
    """The PartitionSpec of an activation of this shape on the active mesh, empty without one.

    An axis that its mesh axes don't divide is not sharded: unlike a parameter's, its size may change from call to call
    (a prompt, the visible patches of an image), and this only costs speed.
    """
    state = _active.get()
    if state is None:
        return PartitionSpec()
    built, mesh = state
    return PartitionSpec(
        *(
            entry if size % count_shards(built, entry) == 0 else None
            for size, entry in zip(shape, mesh.partition(axes), strict=True)
        )
    )


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    """Constrains the sharding of an activation by its logical axes (see `partition`); a no-op without a mesh.

    Dimensions beyond `axes` are unconstrained.
    """
    built = active()
    if built is None:
        return x
    spec = (*partition(x.shape[: len(axes)], *axes), *(PartitionSpec.UNCONSTRAINED,) * (x.ndim - len(axes)))
    return jax.lax.with_sharding_constraint(x, NamedSharding(built, PartitionSpec(*spec)))


def unshard_param(x: jax.Array, *axes: str | None) -> jax.Array:
    """Constrains a parameter for a product: not sharded over the mesh axes that shard the batch too."""
    state = _active.get()
    if state is None:
        return x
    built, mesh = state
    return jax.lax.with_sharding_constraint(x, NamedSharding(built, mesh.without("batch").partition(axes)))


def num_shards(axis: str) -> int:
    """The number of shards of a logical axis on the active mesh; 1 without one."""
    state = _active.get()
    return 1 if state is None else count_shards(state[0], state[1].partition((axis,))[0])


def shard_map(function: Callable[..., Any], in_specs: PyTree, out_specs: PyTree) -> Callable[..., Any]:
    """`jax.shard_map` of a function over the active mesh; without one, the function itself.

    For what XLA can't partition (Pallas kernels, rings).

    Args:
      in_specs: the `partition` of each array, in a tree like the arguments.
      out_specs: the same for the result.
    """
    built = active()
    if built is None:
        return function
    here = set(built.axis_names) - set(jax.sharding.get_abstract_mesh().manual_axes)  # not those mapped further out
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs, axis_names=here, check_vma=False)


def sum_shards(x: jax.Array, spec: PartitionSpec) -> jax.Array:
    """The sum over the devices of all mesh axes that a spec names. Inside `shard_map`."""
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in spec if entry is not None]
    names = tuple(name for entry in entries for name in entry)
    return jax.lax.psum(x, names) if names else x


def axis_index(axis: str) -> jax.Array:
    """The index of this device's shard of a logical axis, int32 []. Inside `shard_map`."""
    return jax.lax.axis_index(_mesh_axes(axis))


def ring_permute(tree: PyTree, axis: str) -> PyTree:
    """The arrays of the device with the previous shard, around a ring. Inside `shard_map`."""
    count = num_shards(axis)
    ring = [(device, (device + 1) % count) for device in range(count)]
    return jax.tree.map(lambda x: jax.lax.ppermute(x, _mesh_axes(axis), ring), tree)


def _mesh_axes(axis: str) -> str | tuple[str, ...]:
    state = _active.get()
    assert state is not None
    return state[1].partition((axis,))[0]
