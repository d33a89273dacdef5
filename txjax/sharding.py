"""Where arrays live: logical axes -> mesh axes by one table. The only module that names mesh axes.

A parameter names its logical axes where it is born (`nn.Linear`); `Mesh.rules` says which mesh axis each
of them is split over. A logical axis without a rule is not split.
"""

import contextlib
import contextvars
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax.experimental.mesh_utils import create_device_mesh, create_hybrid_device_mesh
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from txjax.types import PyTree, UserError, flat_paths, near_misses, setting

# Outermost first: neighbours along the last axes are the nearest devices.
AXES = ("pipeline", "data", "fsdp", "expert", "sequence", "tensor")

# Logical axis -> the mesh axes it is split over.
RULES: dict[str, tuple[str, ...]] = {
    "members": ("data",),  # runs that train together; their batches are split by the rest of the next rule
    "batch": ("data", "fsdp", "expert", "pipeline"),  # examples of activations
    "routed": ("data", "fsdp"),  # examples of activations that are at their experts
    "length": ("sequence",),  # places of activations
    "layers": ("pipeline",),
    "experts": ("expert",),
    "embed": ("fsdp",),  # the width D of parameters (activations call it "width" and are not split along it)
    "vocab": ("tensor",),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "mlp": ("tensor",),
}

Axes = tuple[str | None, ...]


@dataclasses.dataclass
class Mesh:
    """How many devices each mesh axis has; -1 = all that are left.

    Attributes:
      data: copies of the model, each on its share of the batch.
      fsdp: shards of parameters and moments (Rajbhandari et al. 2020, ZeRO-3); the batch is split over it too.
      tensor: shards of heads, mlp and vocabulary (Shoeybi et al. 2019).
      sequence: shards of every example's length (context parallelism).
      expert: shards of the experts of a mixture (Lepikhin et al. 2020); the batch is split over it too.
      pipeline: shards of the layers, each with the batch's parts in turn (Huang et al. 2019); outside the layers the
        batch is split over it too.
      moments: whose memory holds the optimizer's moments between updates: that of the devices, or of the hosts. From
        there they are fetched for the update alone (Ren et al. 2021, ZeRO-Offload).
      rules: changes to the table `RULES`, e.g. `{"vocab": ()}` to keep the embedding whole.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1
    sequence: int = 1
    expert: int = 1
    pipeline: int = 1
    moments: str = setting("device", choices=("device", "host"))
    rules: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def sizes(self, num_devices: int) -> dict[str, int]:
        """Devices along each axis. Raises UserError where the axes don't multiply to `num_devices`."""
        sizes = {axis: getattr(self, axis) for axis in AXES}
        for axis, size in sizes.items():
            if size == 0 or size < -1:
                raise UserError(f"config.mesh.{axis}", "a positive number of devices, or -1 for the rest", size)
        free = [axis for axis, size in sizes.items() if size == -1]
        fixed = math.prod(size for size in sizes.values() if size != -1)
        if len(free) > 1:
            raise UserError("config.mesh", "at most one axis of -1", free)
        if num_devices % fixed or (not free and fixed != num_devices):
            asked = " x ".join(f"{axis}={size}" for axis, size in sizes.items())
            raise UserError(
                "config.mesh",
                f"axes that multiply to the {num_devices} devices here",
                asked,
                hint="set one axis to -1 to take the rest, or change --config.mesh.AXIS",
            )
        return {axis: num_devices // fixed if size == -1 else size for axis, size in sizes.items()}

    def build(self, devices: Sequence[jax.Device] | None = None) -> jax.sharding.Mesh:
        """The mesh over some devices, those of a topology among them; None = all of this run.

        Where they are of several slices, which a slower network connects, each slice has whole copies of the model: the
        slices lie along `data`. Raises UserError where they can't.
        """
        devices = jax.devices() if devices is None else devices
        sizes = self.sizes(len(devices))
        types = (AxisType.Auto,) * len(sizes)
        slices = len({getattr(device, "slice_index", 0) for device in devices})
        split = {"allow_split_physical_axes": True}  # a torus of 4 x 4 x 4 may have axes of 8 and 8
        if slices == 1:
            placed = create_device_mesh(tuple(sizes.values()), devices, **split)
            return jax.sharding.Mesh(placed, tuple(sizes), axis_types=types)
        if sizes["data"] % slices:
            raise UserError("config.mesh.data", f"a multiple of the {slices} slices of devices", sizes["data"])
        within = sizes | {"data": sizes["data"] // slices}
        between = dict.fromkeys(sizes, 1) | {"data": slices}
        placed = create_hybrid_device_mesh(tuple(within.values()), tuple(between.values()), devices, **split)
        return jax.sharding.Mesh(placed, tuple(sizes), axis_types=types)

    def parts(self, axis: str, num_devices: int) -> int:
        """In how many parts a logical axis is split."""
        sizes = self.sizes(num_devices)
        return math.prod(sizes[mesh_axis] for mesh_axis in self.table().get(axis, ()))

    def table(self) -> dict[str, tuple[str, ...]]:
        """Logical axis -> mesh axes, with this run's changes."""
        for name, axes in self.rules.items():
            for axis in axes:
                if axis not in AXES:
                    raise UserError(
                        f"config.mesh.rules[{name!r}]", f"mesh axes of {AXES}", axis, near_misses(axis, AXES)
                    )
        return RULES | {name: tuple(axes) for name, axes in self.rules.items()}

    def without(self, axis: str) -> "Mesh":
        """The mesh whose rules name none of the mesh axes that split a logical axis."""
        taken = self.table().get(axis, ())
        rules = {name: tuple(a for a in axes if a not in taken) for name, axes in self.table().items()}
        return dataclasses.replace(self, rules=rules)

    def partition(self, axes: Axes, where: str = "array") -> PartitionSpec:
        """The PartitionSpec of an array with these logical axes. Two axes on one mesh axis is a collision."""
        table = self.table()
        entries = [table.get(axis, ()) if axis else () for axis in axes]
        used = [mesh_axis for entry in entries for mesh_axis in entry]
        for mesh_axis in used:
            if used.count(mesh_axis) > 1:
                clash = [axis for axis, entry in zip(axes, entries, strict=True) if mesh_axis in entry]
                raise UserError(
                    "config.mesh.rules",
                    f"logical axes of {where} on different mesh axes",
                    f"{clash} all on {mesh_axis!r}",
                )
        return PartitionSpec(*(entry if len(entry) > 1 else (entry[0] if entry else None) for entry in entries))


# The mesh of what is being traced: devices, and the rules.
_active: contextvars.ContextVar[tuple[jax.sharding.Mesh, Mesh] | None] = contextvars.ContextVar("mesh", default=None)


@contextlib.contextmanager
def _seen(state: tuple[jax.sharding.Mesh, Mesh] | None) -> Iterator[None]:
    token = _active.set(state)
    try:
        yield
    finally:
        _active.reset(token)


@contextlib.contextmanager
def use(mesh: Mesh, devices: Sequence[jax.Device] | None = None) -> Iterator[jax.sharding.Mesh]:
    """Everything traced inside sees this mesh and its rules. `devices`: see `Mesh.build`."""
    built = mesh.build(devices)
    with _seen((built, mesh)), jax.set_mesh(built):
        yield built


def nowhere() -> contextlib.AbstractContextManager[None]:
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
            entry if size % _parts(built, entry) == 0 else None
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


def gather(x: jax.Array, *axes: str | None) -> jax.Array:
    """A parameter as a product takes it: whole along the mesh axes that split the batch too."""
    state = _active.get()
    if state is None:
        return x
    built, mesh = state
    return jax.lax.with_sharding_constraint(x, NamedSharding(built, mesh.without("batch").partition(axes)))


def parts(axis: str) -> int:
    """In how many parts the active mesh splits a logical axis; 1 without one."""
    state = _active.get()
    return 1 if state is None else _parts(state[0], state[1].partition((axis,))[0])


def mapped(function: Callable[..., Any], in_specs: PyTree, out_specs: PyTree) -> Callable[..., Any]:
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


def part(axis: str) -> jax.Array:
    """Which part of a logical axis this device has, int32 []. Inside `mapped`."""
    return jax.lax.axis_index(_mesh_axes(axis))


def pass_on(tree: PyTree, axis: str) -> PyTree:
    """What the device with the part before this one's gives, around in a ring. Inside `mapped`."""
    count = parts(axis)
    ring = [(device, (device + 1) % count) for device in range(count)]
    return jax.tree.map(lambda x: jax.lax.ppermute(x, _mesh_axes(axis), ring), tree)


def _mesh_axes(axis: str) -> str | tuple[str, ...]:
    state = _active.get()
    assert state is not None
    return state[1].partition((axis,))[0]


def _parts(built: jax.sharding.Mesh, entry: str | tuple[str, ...] | None) -> int:
    """In how many parts an entry of a PartitionSpec splits."""
    return math.prod(built.shape[axis] for axis in ((entry,) if isinstance(entry, str) else entry or ()))


def shardings(axes: PyTree, shapes: PyTree, mesh: Mesh, built: jax.sharding.Mesh) -> PyTree:
    """The NamedSharding of every array from its logical axes.

    Args:
      axes: a tree of tuples of logical axis names, one name (or None) a dimension.
      shapes: the same tree of arrays or ShapeDtypeStructs.

    Raises:
      UserError: a dimension that its mesh axes don't divide.
    """
    names = flat_paths(axes, is_leaf=lambda a: isinstance(a, tuple))
    arrays = flat_paths(shapes)
    for path, logical in names.items():
        partition = mesh.partition(logical, path)
        for size, name, entry in zip(arrays[path].shape, logical, partition, strict=True):
            if size % (count := _parts(built, entry)):
                over = entry if isinstance(entry, str) else "*".join(entry)
                raise UserError(
                    "config.mesh",
                    f"{over} = {count} to divide axis {name!r} of {path}",
                    size,
                    hint=f"change the model's size or the mesh, or keep it whole with mesh.rules = {{{name!r}: ()}}",
                )
    return jax.tree.map(lambda a: NamedSharding(built, mesh.partition(a)), axes, is_leaf=lambda a: isinstance(a, tuple))


def stacked(axis: str, placed: PyTree, mesh: Mesh) -> PyTree:
    """The shardings of arrays [axis ...] of which each part is placed as `placed`, a tree of NamedSharding, says."""
    (first,) = mesh.partition((axis,))
    return jax.tree.map(
        lambda x: NamedSharding(x.mesh, PartitionSpec(first, *x.spec), memory_kind=x.memory_kind), placed
    )


def batch_sharding(built: jax.sharding.Mesh, mesh: Mesh) -> NamedSharding:
    """Batches are split along their first axis."""
    return NamedSharding(built, mesh.partition(("batch",)))
