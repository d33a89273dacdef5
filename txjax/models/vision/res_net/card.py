"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.res_net.bit import BiT, BottleneckStem
from txjax.models.vision.res_net.res_net import ResNet
from txjax.nn import Classes, GroupNorm, GroupNormRelu, MeanTokens

# Widths and depths (Kolesnikov et al. 2020, 3.1)
BIT: dict[str, tuple[tuple[int, ...], ...]] = {
    "R50x1": ((256, 512, 1024, 2048), (3, 4, 6, 3)),
    "R50x3": ((768, 1536, 3072, 6144), (3, 4, 6, 3)),
    "R101x1": ((256, 512, 1024, 2048), (3, 4, 23, 3)),
    "R101x3": ((768, 1536, 3072, 6144), (3, 4, 23, 3)),
    "R152x2": ((512, 1024, 2048, 4096), (3, 8, 36, 3)),
    "R152x4": ((1024, 2048, 4096, 8192), (3, 8, 36, 3)),
}
# Widths and depths (He et al. 2016, table 1)
RESNET: dict[str, tuple[tuple[int, ...], ...]] = {
    "50": ((256, 512, 1024, 2048), (3, 4, 6, 3)),
    "101": ((256, 512, 1024, 2048), (3, 4, 23, 3)),
    "152": ((256, 512, 1024, 2048), (3, 8, 36, 3)),
}


def bit(size: str = "R50x1", **fields: Any) -> BiT:
    """BiT's residual networks (Kolesnikov et al. 2020): 1,000 classes."""
    layers = stages_of(size, BIT)
    style: dict[str, Any] = dict(stem=BottleneckStem(channels=layers[0].width // 4), head=Classes(1000, MeanTokens()))
    return BiT(**dict(stages=layers) | style | fields)


def resnet(size: str = "50", **fields: Any) -> ResNet:
    """Residual networks (He et al. 2016), 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    return ResNet(**dict(stages=stages_of(size, RESNET)) | style | fields)


CARD = Card(
    title="BiT, ResNet",
    examples=(
        Example(
            model=BiT(
                stages=(
                    Stage(8, 2),
                    Stage(16, 1),
                ),
                norm=GroupNormRelu(groups=2),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/bit_fashion.py",
        ),
        Example(
            model=ResNet(
                stages=(
                    Stage(8, 2),
                    Stage(16, 1),
                ),
                norm=GroupNorm(groups=2),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/resnet_imagenet.py",
            limits="microbatches without a `group` of its batch normalization",
        ),
    ),
    presets=(
        Preset(
            build=bit,
            paper="Kolesnikov et al. 2020",
            remark="1,000 classes",
            sizes={
                "R50x1": Size(25_549_352),
                "R50x3": Size(217_319_080),
                "R101x1": Size(44_541_480),
                "R101x3": Size(387_934_888),
                "R152x2": Size(236_335_208),
                "R152x4": Size(936_533_224),
            },
            reference="BitForImageClassification",
        ),
        Preset(
            build=resnet,
            paper="He et al. 2016, table 1",
            remark="without the statistics of batches",
            sizes={
                "50": Size(25_557_032),
                "101": Size(44_549_160),
                "152": Size(60_192_808),
            },
            reference="ResNetForImageClassification",
        ),
    ),
    systems=(
        System(
            name="BiT",
            config="configs/vision/bit_fashion.py",
            score="89.5%",
            presets=(bit,),
            equal_to="[BitForImageClassification](tests/interop/test_parity.py)",
            compiled="R152x4 on v5p:4x4x4",
        ),
    ),
)
