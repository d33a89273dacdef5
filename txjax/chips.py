"""Specifications of accelerators, from their data sheets."""

import dataclasses

import jax

from txjax.types import UserError, near_misses

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """One accelerator.

    Attributes:
      peak_flops: dense bfloat16 FLOP/s.
      memory: bytes of HBM.
      memory_bandwidth: bytes/s between HBM and the chip.
      interconnect: bytes/s sent to the chips of its slice or server, over all links at once.
      source: the data sheet.
      network: bytes/s sent over the data centre's network, a chip's share of its host's. If None, not published there.
    """

    peak_flops: float
    memory: int
    memory_bandwidth: float
    interconnect: float
    source: str
    network: float | None = None


_TPU = "docs.cloud.google.com/tpu/docs/"

# By a part of jax's `device_kind`. Data sheets give the interconnect as the sum of both directions; this is one.
CHIPS: dict[str, Chip] = {
    "A100": Chip(312e12, 80 * 10**9, 2039e9, 300e9, "NVIDIA A100 80GB SXM data sheet, June 2021"),
    "H100": Chip(989.5e12, 80 * 10**9, 3350e9, 450e9, "NVIDIA H100 SXM data sheet"),
    "H100 PCIe": Chip(756e12, 80 * 10**9, 2000e9, 300e9, "NVIDIA H100 PCIe data sheet, with an NVLink bridge"),
    "H200": Chip(989.5e12, 141 * 10**9, 4800e9, 450e9, "NVIDIA H200 SXM data sheet"),
    "TPU v4": Chip(275e12, 32 * GIB, 1200e9, 300e9, _TPU + "v4"),
    "TPU v5": Chip(459e12, 95 * GIB, 2765e9, 600e9, _TPU + "v5p", 6.25e9),  # jax calls v5p so
    "TPU v5 lite": Chip(197e12, 16 * GIB, 819e9, 200e9, _TPU + "v5e", 3.125e9),
    "TPU v5e": Chip(197e12, 16 * GIB, 819e9, 200e9, _TPU + "v5e", 3.125e9),
    "TPU v6 lite": Chip(918e12, 32 * GIB, 1600e9, 400e9, _TPU + "v6e", 12.5e9),
    "TPU v6e": Chip(918e12, 32 * GIB, 1600e9, 400e9, _TPU + "v6e", 12.5e9),
}


def chip_of(device: jax.Device) -> Chip | None:
    """The device's chip, None if unknown: the longest name that is part of its kind."""
    kind = device.device_kind.lower()
    names = [name for name in CHIPS if name.lower() in kind]
    return CHIPS[max(names, key=len)] if names else None


def chip_named(name: str) -> Chip:
    """A chip by name. Raises UserError for an unknown one."""
    if name not in CHIPS:
        raise UserError("--chip", "one of " + ", ".join(CHIPS), name, near_misses(name, CHIPS))
    return CHIPS[name]


def peak(device: jax.Device) -> float | None:
    """The device's dense bfloat16 FLOP/s, None if unknown."""
    chip = chip_of(device)
    return chip.peak_flops if chip else None
