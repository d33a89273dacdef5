"""The devices of a plan: a slice of a TPU pod, which need not be attached, or fake devices of this CPU."""

import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any

import jax

from txjax.chips import Chip, chip_named, chip_of
from txjax.types import UserError, near_misses, require

_FAMILIES = ("v4", "v5e", "v5p", "v6e")


@dataclasses.dataclass(frozen=True)
class Target:
    """The devices of a plan.

    Attributes:
      name: as given by the user.
      devices: to compile for.
      platform: of these devices.
      chip: the specification of one of them.
    """

    name: str
    devices: Sequence[Any]
    platform: str
    chip: Chip

    @property
    def slices(self) -> int:
        """Number of slices, which are connected by the data center network only."""
        return len({getattr(device, "slice_index", 0) for device in self.devices})


def slice_of(topology: str, slices: int = 1) -> Target:
    """A slice of a TPU pod such as `v5p:4x4x4`, or several connected by the data center network. Needs libtpu, no TPU.

    Raises:
      UserError: there is no such slice, or libtpu is not installed.
    """
    family, _, shape = topology.partition(":")
    if family not in _FAMILIES or not re.fullmatch(r"\d+x\d+(x\d+)?", shape):
        hint = "see the vendor's table of slice topologies for that TPU"
        near = near_misses(family, _FAMILIES)
        raise UserError("--topology", "FAMILY:AxB or AxBxC of " + ", ".join(_FAMILIES), topology, near, hint)
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


def fake(count: int, chip: str) -> Target:
    """`count` CPU devices that stand in for a chip. JAX must have been started with that many CPU devices."""
    devices = jax.devices("cpu")[:count]
    assert len(devices) == count, len(devices)
    return Target(f"{count} x {chip}", devices, "cpu", chip_named(chip))
