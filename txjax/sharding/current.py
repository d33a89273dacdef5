"""The mesh of what is being traced: what layers ask and say of it, by logical axes alone."""

import contextlib
import contextvars
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from txjax.sharding.mesh import Mesh, count_shards
from txjax.types import PyTree

_active: contextvars.ContextVar[tuple[jax.sharding.Mesh, Mesh] | None] = contextvars.ContextVar("mesh", default=None)


@contextlib.contextmanager
def _seen(state: tuple[jax.sharding.Mesh, Mesh] | None) -> Iterator[None]:
    token = _active.set(state)
    try:
        yield
    finally:
        _active.reset(token)


@contextlib.contextmanager
def use_mesh(mesh: Mesh, devices: Sequence[jax.Device] | None = None) -> Iterator[jax.sharding.Mesh]:
    """Everything traced inside sees this mesh and its rules. `devices`: see `Mesh.build`."""
    built = mesh.build(devices)
    with _seen((built, mesh)), jax.set_mesh(built):
        yield built


def no_mesh() -> contextlib.AbstractContextManager[None]:
    """Everything traced inside sees no mesh: the mathematics alone."""
    return _seen(None)


def within(axis: str) -> contextlib.AbstractContextManager[None]:
    """What is traced inside is one part of what `axis` splits: no rule names its mesh axes there."""
    state = _active.get()
    return _seen(state and (state[0], state[1].without(axis)))


def each(function: Callable[..., Any], axis: str, in_axes: Any = 0) -> Callable[..., Any]:
    """`jax.vmap` over leading dimensions named `axis`: every device computes the parts that it holds."""
    state = _active.get()
    split = () if state is None else state[1].table().get(axis, ())

    def part(*args: Any) -> Any:
        with within(axis):
            return function(*args)

    return jax.vmap(part, in_axes, spmd_axis_name=split or None)


def active() -> jax.sharding.Mesh | None:
    """The mesh of what is being traced, None without one."""
    state = _active.get()
    return state and state[0]


def partition(shape: tuple[int, ...], *axes: str | None) -> PartitionSpec:
    """How an activation of this shape is split on the active mesh: by nothing where there is none.

    An axis that its mesh axes don't divide stays whole: unlike a parameter's, its size may change from call to call
    (a prompt, the visible patches of an image), and all that is lost is speed.
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
    """States the logical axes of an activation (see `partition`); without an active mesh it does nothing.

    Fewer axes than x has dimensions: the last ones stay as the compiler has them.
    """
    built = active()
    if built is None:
        return x
    spec = (*partition(x.shape[: len(axes)], *axes), *(PartitionSpec.UNCONSTRAINED,) * (x.ndim - len(axes)))
    return jax.lax.with_sharding_constraint(x, NamedSharding(built, PartitionSpec(*spec)))


def unshard_param(x: jax.Array, *axes: str | None) -> jax.Array:
    """A parameter as a product takes it: whole along the mesh axes that split the batch too."""
    state = _active.get()
    if state is None:
        return x
    built, mesh = state
    return jax.lax.with_sharding_constraint(x, NamedSharding(built, mesh.without("batch").partition(axes)))


def num_shards(axis: str) -> int:
    """In how many parts the active mesh splits a logical axis; 1 without one."""
    state = _active.get()
    return 1 if state is None else count_shards(state[0], state[1].partition((axis,))[0])


def shard_map(function: Callable[..., Any], in_specs: PyTree, out_specs: PyTree) -> Callable[..., Any]:
    """The function, run by every device of the active mesh on its own parts; without one, the function itself.

    What XLA can't split by itself (Pallas kernels, rings) goes through here.

    Args:
      in_specs: a tree like the arguments, of what `partition` says of each array.
      out_specs: the same of the result.
    """
    built = active()
    if built is None:
        return function
    here = set(built.axis_names) - set(jax.sharding.get_abstract_mesh().manual_axes)  # not those mapped further out
    return jax.shard_map(function, in_specs=in_specs, out_specs=out_specs, axis_names=here, check_vma=False)


def axis_index(axis: str) -> jax.Array:
    """Which part of a logical axis this device has, int32 []. Inside `shard_map`."""
    return jax.lax.axis_index(_mesh_axes(axis))


def ring_permute(tree: PyTree, axis: str) -> PyTree:
    """What the device with the part before this one's gives, around in a ring. Inside `shard_map`."""
    count = num_shards(axis)
    ring = [(device, (device + 1) % count) for device in range(count)]
    return jax.tree.map(lambda x: jax.lax.ppermute(x, _mesh_axes(axis), ring), tree)


def _mesh_axes(axis: str) -> str | tuple[str, ...]:
    state = _active.get()
    assert state is not None
    return state[1].partition((axis,))[0]
