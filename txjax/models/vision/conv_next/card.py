"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.conv_next.conv_next import ConvNeXt
from txjax.nn import Classes, DepthwiseConv, NormedPool, PatchEmbedding

# Widths and depths (Liu et al. 2022, 3.1)
CONVNEXT: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((96, 192, 384, 768), (3, 3, 9, 3)),
    "S": ((96, 192, 384, 768), (3, 3, 27, 3)),
    "B": ((128, 256, 512, 1024), (3, 3, 27, 3)),
    "L": ((192, 384, 768, 1536), (3, 3, 27, 3)),
    "XL": ((256, 512, 1024, 2048), (3, 3, 27, 3)),
}


def convnext(size: str = "T", **fields: Any) -> ConvNeXt:
    """ConvNeXt (Liu et al. 2022): kernels of 7 x 7, 1,000 classes."""
    style: dict[str, Any] = dict(head=Classes(1000, NormedPool()))
    return ConvNeXt(**dict(stages=stages_of(size, CONVNEXT)) | style | fields)


CARD = Card(
    title="ConvNeXt",
    examples=(
        Example(
            model=ConvNeXt(
                stages=(
                    Stage(8, 1, 2),
                    Stage(16, 1, 4),
                ),
                stem=PatchEmbedding(patch=1),
                mixer=DepthwiseConv(side=3),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/convnext_fashion.py",
        ),
    ),
    presets=(
        Preset(
            build=convnext,
            paper="Liu et al. 2022, 3.1",
            sizes={
                "T": Size(28_589_128),
                "S": Size(50_223_688),
                "B": Size(88_591_464),
                "L": Size(197_767_336),
                "XL": Size(350_196_968),
            },
            reference="ConvNextForImageClassification",
        ),
    ),
    systems=(
        System(
            name="ConvNeXt",
            config="configs/vision/convnext_fashion.py",
            score="88.6%",
            presets=(convnext,),
            equal_to="[ConvNextForImageClassification](tests/interop/test_parity.py)",
            compiled="XL on v5e:16x16",
        ),
    ),
)
