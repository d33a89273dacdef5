"""RepLKNet (Ding et al. 2022)."""

from txjax.models.vision.rep_lk_net.large_kernels import (
    LargeKernel,
    LargeKernelMixer,
    LargeKernelStem,
    MergedKernel,
    NormedMLP,
    ParallelKernels,
    Transition,
)
from txjax.models.vision.rep_lk_net.rep_lk_net import RepLKNet

__all__ = [
    "LargeKernel",
    "LargeKernelMixer",
    "LargeKernelStem",
    "MergedKernel",
    "NormedMLP",
    "ParallelKernels",
    "RepLKNet",
    "Transition",
]
