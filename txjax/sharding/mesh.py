"""The mesh, and the rules from logical axes to mesh axes. No other module names mesh axes.

A parameter's logical axes are set where it is created (`nn.parameter`); `Mesh.rules` maps each of them to mesh axes. A
logical axis without a rule is not sharded.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax
from jax.experimental.mesh_utils import create_device_mesh, create_hybrid_device_mesh
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from txjax.axes import Names
from txjax.errors import UserError, near_misses
from txjax.types import PyTree, config_field, flat_paths

# Outermost first: neighbours along the last axes are the nearest devices.
AXES = ("pipeline", "data", "fsdp", "expert", "sequence", "tensor")

# Logical axis -> the mesh axes it is split over.
RULES: dict[str, tuple[str, ...]] = {
    "members": ("data",),  # runs that train together; their batches are sharded by the rest of the next rule
    "batch": ("data", "fsdp", "expert", "pipeline"),  # examples of activations
    "sources": ("data", "fsdp", "expert", "pipeline"),  # of what all texts of an example share in decoding
    "routed": ("data", "fsdp"),  # examples of activations that are dispatched to experts
    "length": ("sequence",),  # positions of activations
    "layers": ("pipeline",),
    "experts": ("expert",),
    "embed": ("fsdp",),  # the width D of parameters (activations call it "width" and are not sharded along it)
    "vocab": ("tensor",),
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "mlp": ("tensor",),
}


@dataclasses.dataclass
class Mesh:
    """The number of devices of each mesh axis; -1 = all that are left.

    Attributes:
      data: replicas of the model, each on its shard of the batch.
      fsdp: shards of parameters and moments (Rajbhandari et al. 2020, ZeRO-3); the batch is sharded over it too.
      tensor: shards of heads, mlp and vocabulary (Shoeybi et al. 2019).
      sequence: shards of every example's length (context parallelism).
      expert: shards of the experts of a mixture (Lepikhin et al. 2020); the batch is sharded over it too.
      pipeline: stages of layers, through which microbatches pass in turn (Huang et al. 2019); outside the layers the
        batch is sharded over it too.
      moments: whether the optimizer's moments are stored on the devices between updates, or offloaded to the hosts and
        fetched for the update only (Ren et al. 2021, ZeRO-Offload).
      rules: overrides of the table `RULES`, e.g. `{"vocab": ()}` for an embedding that is not sharded.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1
    sequence: int = 1
    expert: int = 1
    pipeline: int = 1
    moments: str = config_field("device", choices=("device", "host"))
    rules: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    def sizes(self, num_devices: int) -> dict[str, int]:
        """Devices along each axis. Raises UserError if the axes don't multiply to `num_devices`."""
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
        """The mesh over some devices, which may be a topology's. If None, all of this run.

        If they are of several slices, which a slower network connects, `data` is split over the slices, so that each
        has whole replicas of the model. Raises UserError if the slices don't divide `data`.
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

    def num_shards(self, axis: str, num_devices: int) -> int:
        """The number of shards of a logical axis."""
        sizes = self.sizes(num_devices)
        return math.prod(sizes[mesh_axis] for mesh_axis in self.table().get(axis, ()))

    def table(self) -> dict[str, tuple[str, ...]]:
        """Logical axis -> mesh axes, with this run's overrides."""
        for name, axes in self.rules.items():
            for axis in axes:
                if axis not in AXES:
                    raise UserError(
                        f"config.mesh.rules[{name!r}]", f"mesh axes of {AXES}", axis, near_misses(axis, AXES)
                    )
        return RULES | {name: tuple(axes) for name, axes in self.rules.items()}

    def without(self, axis: str) -> "Mesh":
        """The mesh without the mesh axes of a logical axis in its rules."""
        taken = self.table().get(axis, ())
        rules = {name: tuple(a for a in axes if a not in taken) for name, axes in self.table().items()}
        return dataclasses.replace(self, rules=rules)

    def partition(self, axes: Names, where: str = "array") -> PartitionSpec:
        """The PartitionSpec of an array with these logical axes. Raises UserError for two axes on one mesh axis."""
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


def is_axes(node: PyTree) -> bool:
    """Whether a node of a tree of logical axes is a leaf: the axes of one array."""
    return isinstance(node, tuple)


def count_shards(built: jax.sharding.Mesh, entry: str | tuple[str, ...] | None) -> int:
    """The number of shards by an entry of a PartitionSpec."""
    return math.prod(built.shape[axis] for axis in ((entry,) if isinstance(entry, str) else entry or ()))


def shardings(axes: PyTree, shapes: PyTree, mesh: Mesh, built: jax.sharding.Mesh) -> PyTree:
    """The NamedSharding of every array from its logical axes.

    Args:
      axes: a tree of tuples of logical axis names, one name (or None) a dimension.
      shapes: the same tree of arrays or ShapeDtypeStructs.

    Raises:
      UserError: a dimension that its mesh axes don't divide.
    """
    names = flat_paths(axes, is_leaf=is_axes)
    arrays = flat_paths(shapes)
    for path, logical in names.items():
        partition = mesh.partition(logical, path)
        for size, name, entry in zip(arrays[path].shape, logical, partition, strict=True):
            if size % (count := count_shards(built, entry)):
                over = entry if isinstance(entry, str) else "*".join(entry)
                raise UserError(
                    "config.mesh",
                    f"{over} = {count} to divide axis {name!r} of {path}",
                    size,
                    hint=f"change the model's size or the mesh, or keep it whole with mesh.rules = {{{name!r}: ()}}",
                )
    return jax.tree.map(lambda a: NamedSharding(built, mesh.partition(a)), axes, is_leaf=is_axes)


def stack_shardings(axis: str, placed: PyTree, mesh: Mesh) -> PyTree:
    """The shardings of arrays [axis ...] whose parts along `axis` have the shardings `placed`."""
    (first,) = mesh.partition((axis,))
    return jax.tree.map(
        lambda x: NamedSharding(x.mesh, PartitionSpec(first, *x.spec), memory_kind=x.memory_kind), placed
    )


def batch_sharding(built: jax.sharding.Mesh, mesh: Mesh) -> NamedSharding:
    """The sharding of batches, along their first axis."""
    return NamedSharding(built, mesh.partition(("batch",)))
