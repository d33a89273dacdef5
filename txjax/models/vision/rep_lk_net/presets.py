"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.hierarchical import stages
from txjax.models.vision.rep_lk_net.large_kernels import LargeKernelMixer, ParallelKernels
from txjax.models.vision.rep_lk_net.rep_lk_net import RepLKNet
from txjax.nn import Classes, MeanTokens

# Widths and depths; sides of the large kernels (Ding et al. 2022, 4.3)
REPLKNET: dict[str, tuple[tuple[int, ...], ...]] = {
    "31B": ((128, 256, 512, 1024), (2, 2, 18, 2)),
    "31L": ((192, 384, 768, 1536), (2, 2, 18, 2)),
    "XL": ((256, 512, 1024, 2048), (2, 2, 18, 2)),
}


def replknet(size: str = "31B", **fields: Any) -> RepLKNet:
    """RepLKNet (Ding et al. 2022), 1,000 classes. XL has kernels of 27 x 27 without small ones in parallel."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    if size == "XL":
        mixer = LargeKernelMixer(kernel=ParallelKernels(small=None), ratio=1.5)
        style |= dict(sides=(27, 27, 27, 13), attention=mixer)
    return RepLKNet(**dict(stages=stages(size, REPLKNET)) | style | fields)
