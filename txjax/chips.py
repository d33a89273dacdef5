"""Specifications of accelerators, from their data sheets."""

import dataclasses
from collections.abc import Mapping

import jax

from txjax.errors import UserError, near_misses

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """One accelerator.

    Attributes:
      peak_flops: dense bfloat16 FLOP/s.
      memory: bytes of HBM; of NVIDIA's as CUDA reports them.
      memory_bandwidth: bytes/s between HBM and the chip.
      interconnect: bytes/s sent to the chips of its slice or server, over all links at once.
      source: the data sheet.
      network: bytes/s sent over the data centre's network, a chip's share of its host's. If None, not published there.
      peaks: dense FLOP/s by the other dtypes of a product's inputs, in XLA's names; of TPUs, all products are bfloat16.
      allocated: share of the memory that JAX takes, unless an environment variable sets another.
    """

    peak_flops: float
    memory: int
    memory_bandwidth: float
    interconnect: float
    source: str
    network: float | None = None
    peaks: Mapping[str, float] = dataclasses.field(default_factory=dict)
    allocated: float = 1.0

    def peak_of(self, dtype: str) -> float:
        """Dense FLOP/s of products of inputs of a dtype, in XLA's names: `bf16`, `f32`, `f8e4m3fn`, `s8`."""
        return next((flops for name, flops in self.peaks.items() if dtype.startswith(name)), self.peak_flops)


def _nvidia(peak_flops: float, source: str, *, memory: int, peaks: Mapping[str, float], **rates: float) -> Chip:
    """An NVIDIA GPU, of whose memory JAX takes three quarters (docs.jax.dev/en/latest/gpu_memory_allocation.html)."""
    return Chip(peak_flops, memory, source=source, peaks=peaks, allocated=0.75, **rates)


_TPU = "docs.cloud.google.com/tpu/docs/"
# float32 products of a GPU are TF32's, which XLA takes by default.
_AMPERE = {"f32": 156e12, "s8": 624e12, "f64": 19.5e12}
_HOPPER = {"f32": 494.5e12, "f8": 1979e12, "s8": 1979e12, "f64": 67e12}
_BLACKWELL = {"f32": 1125e12, "f8": 4500e12, "s8": 4500e12, "f64": 37e12}

# By a part of jax's `device_kind`. Data sheets give the interconnect as the sum of both directions; this is one. The
# network is that of NVIDIA's servers of eight, which have a network card for each GPU: 200 Gbit/s in DGX A100, 400 in
# DGX H100, H200 and B200.
CHIPS: dict[str, Chip] = {
    "A100": _nvidia(
        312e12,
        "NVIDIA A100 80GB SXM data sheet, June 2021; DGX A100 data sheet",
        memory=85_100_068_864,
        memory_bandwidth=2039e9,
        interconnect=300e9,
        network=25e9,
        peaks=_AMPERE,
    ),
    "H100": _nvidia(
        989.5e12,
        "NVIDIA H100 SXM data sheet; DGX H100 data sheet",
        memory=84_942_979_072,
        memory_bandwidth=3350e9,
        interconnect=450e9,
        network=50e9,
        peaks=_HOPPER,
    ),
    "H100 PCIe": _nvidia(
        756e12,
        "NVIDIA H100 PCIe data sheet, with an NVLink bridge",
        memory=84_942_979_072,
        memory_bandwidth=2000e9,
        interconnect=300e9,
        peaks={"f32": 378e12, "f8": 1513e12, "s8": 1513e12, "f64": 51e12},
    ),
    "H200": _nvidia(
        989.5e12,
        "NVIDIA H200 SXM data sheet; DGX H200 data sheet",
        memory=151_397_597_184,
        memory_bandwidth=4800e9,
        interconnect=450e9,
        network=50e9,
        peaks=_HOPPER,
    ),
    "B200": _nvidia(
        2250e12,
        "NVIDIA HGX B200 data sheet; DGX B200 data sheet",
        memory=191_514_411_008,
        memory_bandwidth=7700e9,
        interconnect=900e9,
        network=50e9,
        peaks=_BLACKWELL,
    ),
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
