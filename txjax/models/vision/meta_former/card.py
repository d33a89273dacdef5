"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.meta_former.meta_former import MetaFormer
from txjax.nn import Classes, ConvEmbedding, MeanTokens, PreNorm

# Widths and depths (Yu et al. 2022, table 1)
POOLFORMER: dict[str, tuple[tuple[int, ...], ...]] = {
    "S12": ((64, 128, 320, 512), (2, 2, 6, 2)),
    "S24": ((64, 128, 320, 512), (4, 4, 12, 4)),
    "S36": ((64, 128, 320, 512), (6, 6, 18, 6)),
    "M36": ((96, 192, 384, 768), (6, 6, 18, 6)),
    "M48": ((96, 192, 384, 768), (8, 8, 24, 8)),
}


def poolformer(size: str = "S12", **fields: Any) -> MetaFormer:
    """PoolFormer (Yu et al. 2022), 1,000 classes. From S36 on the layer scale is 1e-6 at first."""
    style: dict[str, Any] = dict(head=Classes(1000, MeanTokens()))
    if size not in ("S12", "S24"):
        style["block"] = PreNorm(layer_scale=1e-6)
    return MetaFormer(**dict(stages=stages_of(size, POOLFORMER)) | style | fields)


CARD = Card(
    title="MetaFormer",
    examples=(
        Example(
            model=MetaFormer(
                stages=(
                    Stage(8, 1, 2),
                    Stage(16, 1, 4),
                ),
                stem=ConvEmbedding(stride=1),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/metaformer_fashion.py",
        ),
    ),
    presets=(
        Preset(
            build=poolformer,
            paper="Yu et al. 2022, table 1",
            sizes={
                "S12": Size(11_915_176),
                "S24": Size(21_388_968),
                "S36": Size(30_862_760),
                "M36": Size(56_172_520),
                "M48": Size(73_473_448),
            },
            reference="PoolFormerForImageClassification",
        ),
    ),
    systems=(
        System(
            name="PoolFormer, MetaFormer",
            config="configs/vision/metaformer_fashion.py",
            score="88.2%",
            presets=(poolformer,),
            equal_to="[PoolFormerForImageClassification](tests/interop/test_parity.py)",
            compiled="M48 on v5e:16x16",
        ),
    ),
)
