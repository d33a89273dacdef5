"""The devices of a plan: a slice of a TPU pod or GPUs, which need not be attached, or fake devices of this CPU."""

import collections
import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any

import jax

from txjax.chips import Chip, chip_named, chip_of
from txjax.errors import UserError, near_misses, require
from txjax.experiment import Experiment
from txjax.plan.collectives import Groups
from txjax.plan.gpus import GPUS

_FAMILIES = ("v4", "v5e", "v5p", "v6e")
MEMORY_SHARE = "XLA_PYTHON_CLIENT_MEM_FRACTION"  # JAX's variable
_NOT_RUN = (
    "compiled, not run: times are estimates",
    "products have XLA's default kernels, as it has no GPU to try others on",
    "cuDNN's graphs are not built, its workspaces not in the memory",
)


@dataclasses.dataclass(frozen=True)
class Target:
    """The devices of a plan.

    Attributes:
      name: as given by the user.
      devices: to compile for.
      platform: of these devices.
      chip: the specification of one of them.
      limits: what the compiler leaves out for these devices.
      capability: CUDA's, of GPUs that need not be attached.
    """

    name: str
    devices: Sequence[Any]
    platform: str
    chip: Chip
    limits: tuple[str, ...] = ()
    capability: tuple[int, int] | None = None

    @property
    def slices(self) -> int:
        """Number of slices, which are connected by the data center network only."""
        return len({getattr(device, "slice_index", 0) for device in self.devices})

    @property
    def memory_share(self) -> float:
        """The share of a device's memory that JAX takes: by `XLA_PYTHON_CLIENT_MEM_FRACTION`, or its default.

        Raises:
          UserError: the variable is not a number above 0.
        """
        share = os.environ.get(MEMORY_SHARE) if self.chip.allocated < 1 else None
        if share is None:
            return self.chip.allocated
        if not re.fullmatch(r"[\d.]+(e-?\d+)?", share) or not float(share):
            raise UserError(MEMORY_SHARE, "a share of a device's memory above 0, such as 0.92", share)
        return float(share)

    @property
    def room(self) -> int:
        """Bytes of a device that a program can have."""
        return round(self.memory_share * self.chip.memory)

    def bandwidth(self, groups: Groups, devices: Sequence[Any]) -> float:
        """Bytes/s that a device sends in a ring through a group of devices, in the slowest group.

        A ring through several hosts leaves each of them over the network cards of all the group's devices there.

        Args:
          groups: positions in `devices`.
          devices: of the mesh, in its order.
        """
        rates = [self.chip.interconnect]
        for group in groups:
            on_hosts = collections.Counter(self._host(devices[position]) for position in group)
            if len(on_hosts) > 1 and self.chip.network:
                rates.append(self.chip.network * min(on_hosts.values()))
        return min(rates)

    def _host(self, device: Any) -> int:
        return device.process_index if self.platform == "gpu" else 0


def slice_of(topology: str, slices: int = 1) -> Target:
    """A slice of a TPU pod such as `v5p:4x4x4`, or several connected by the data center network. Needs libtpu, no TPU.

    Raises:
      UserError: there is no such slice, or libtpu is not installed.
    """
    family, _, shape = topology.partition(":")
    if family not in _FAMILIES or not re.fullmatch(r"\d+x\d+(x\d+)?", shape):
        hint = "see the vendor's table of slice topologies for that TPU"
        near = near_misses(family, (*_FAMILIES, *GPUS))
        expected = f"FAMILY:AxB or AxBxC of {', '.join(_FAMILIES)}, or FAMILY:GPUS of {', '.join(GPUS)}"
        raise UserError("--topology", expected, topology, near, hint)
    require("libtpu", "libtpu", "--topology", extra="plan")
    # libtpu queries the cloud's metadata server, and logs errors outside the cloud.
    quiet = {
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # no TPU is used, so other processes may load it too
        "TPU_ACCELERATOR_TYPE": "v4-8",  # any value: the topology below decides
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_MIN_LOG_LEVEL": "3",
        "TPU_STDERR_LOG_LEVEL": "3",
    }
    for name, value in quiet.items():
        os.environ.setdefault(name, value)
    from jax.experimental import topologies

    how: dict[str, Any] = {"num_slices": slices} if slices > 1 else {}
    if family == "v4":
        how["chip_config_name"] = "megacore"  # a chip's two cores are one device
    try:
        description = topologies.get_topology_desc(platform="tpu", topology_name=f"{family}:{shape}", **how)
    except Exception as error:  # libtpu's own types, which differ between versions
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError("--topology", "a slice supported by libtpu", topology, hint=message) from None
    chip = chip_of(description.devices[0])
    assert chip is not None, description.devices
    return Target(topology if slices == 1 else f"{slices} x {topology}", description.devices, "tpu", chip)


def gpus(topology: str) -> Target:
    """NVIDIA GPUs such as `h100:8`, or `h100:4x8` on four hosts. Needs JAX's CUDA plugin and its compiler, no GPU.

    Raises:
      UserError: there is no such GPU, or the plugin, CUDA's compiler or cuDNN is not installed.
    """
    family, _, shape = topology.partition(":")
    if family not in GPUS or not re.fullmatch(r"([1-9]\d*x)?[1-9]\d*", shape):
        expected = "FAMILY:GPUS or FAMILY:HOSTSxGPUS of " + ", ".join(GPUS)
        raise UserError("--topology", expected, topology, near_misses(family, GPUS))
    require("jax_cuda13_plugin", "jax-cuda13-plugin", "--topology", extra="plan-gpu")
    require("nvidia", "nvidia-cuda-nvcc", "--topology", extra="plan-gpu")
    require("nvidia.cudnn", "nvidia-cudnn-cu13", "--topology", extra="plan-gpu")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"  # where a program is too large, XLA warns in lines of its own
    from jax.experimental import topologies

    hosts, count = ("1x" + shape).split("x")[-2:]
    try:
        description = topologies.get_topology_desc(
            platform="cuda", target_config=GPUS[family].target_config(), topology=f"1x{hosts}x{count}"
        )
    except Exception as error:  # the plugin's own types, which differ between versions
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError("--topology", "GPUs supported by JAX's CUDA plugin", topology, hint=message) from None
    return Target(topology, description.devices, "gpu", GPUS[family].rates, _NOT_RUN, GPUS[family].capability)


def check_moments(experiment: Experiment, target: Target) -> None:
    """Raises UserError where the compiler would silently plan moments in host memory as if they were on the devices."""
    if target.platform == "gpu" and experiment.mesh.moments != "device":
        expected = "device: the compiler for GPUs that are not attached ignores where arguments are"
        raise UserError("config.mesh.moments", expected, experiment.mesh.moments)


def target_of(topology: str, slices: int = 1) -> Target:
    """The devices of a topology: GPUs, or a slice of a TPU pod.

    Raises:
      UserError: there are no such devices, or their compiler is not installed.
    """
    if topology.partition(":")[0] in GPUS:
        return gpus(topology)
    return slice_of(topology, slices)


def fake(count: int, chip: str) -> Target:
    """`count` CPU devices that stand in for a chip. JAX must have been started with that many CPU devices."""
    devices = jax.devices("cpu")[:count]
    assert len(devices) == count, len(devices)
    other = (
        f"the program is a CPU's: --topology={chip.lower()}:{count} compiles the GPU's, with its attention and memory"
    )
    return Target(f"{count} x {chip}", devices, "cpu", chip_named(chip), (other,) if chip.lower() in GPUS else ())
