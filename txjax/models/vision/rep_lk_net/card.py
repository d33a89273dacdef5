"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.rep_lk_net.large_kernels import LargeKernelMixer, ParallelKernels
from txjax.models.vision.rep_lk_net.rep_lk_net import RepLKNet
from txjax.nn import Classes, ConvEmbedding, MeanTokens

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
        style |= dict(sides=(27, 27, 27, 13), mixer=mixer)
    return RepLKNet(**dict(stages=stages_of(size, REPLKNET)) | style | fields)


CARD = Card(
    title="RepLKNet",
    examples=(
        Example(
            model=RepLKNet(
                stages=(
                    Stage(8, 1, 2),
                    Stage(16, 1, 4),
                ),
                stem=ConvEmbedding(stride=1),
                sides=(3, 3),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/replknet_fashion.py",
            limits="microbatches without a `group` of its batch normalization",
        ),
    ),
    presets=(
        Preset(
            build=replknet,
            paper="Ding et al. 2022, 4.1 and 4.3",
            remark="as it is trained",
            sizes={
                "31B": Size(79_864_168),
                "31L": Size(172_671_016),
                "XL": Size(335_435_752),
            },
        ),
    ),
    systems=(
        System(
            name="RepLKNet",
            config="configs/vision/replknet_fashion.py",
            score="87.5%",
            presets=(replknet,),
            equal_to="[the formulas in numpy](tests/models/test_rep_lk_net.py)",
            compiled="XL on v5e:16x16",
        ),
    ),
)
