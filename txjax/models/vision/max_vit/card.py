"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import stages_of
from txjax.models.vision.max_vit.max_vit import MaxViT, MaxViTStem
from txjax.nn import (
    Classes,
    NormedPool,
    Pooler,
    WindowAttention,
)

# Widths, depths and heads of 32 channels (Tu et al. 2022, table 1), and channels of the stem
MAX_VIT: dict[str, tuple[tuple[int, ...], ...]] = {
    "T": ((64, 128, 256, 512), (2, 2, 5, 2), (2, 4, 8, 16)),
    "S": ((96, 192, 384, 768), (2, 2, 5, 2), (3, 6, 12, 24)),
    "B": ((96, 192, 384, 768), (2, 6, 14, 2), (3, 6, 12, 24)),
    "L": ((128, 256, 512, 1024), (2, 6, 14, 2), (4, 8, 16, 32)),
    "XL": ((192, 384, 768, 1536), (2, 6, 14, 2), (6, 12, 24, 48)),
}
_STEMS = {"T": 64, "S": 64, "B": 64, "L": 128, "XL": 192}


def max_vit(size: str = "T", **fields: Any) -> MaxViT:
    """MaxViT (Tu et al. 2022): windows and grids of 7 x 7, 1,000 classes."""
    layers = stages_of(size, MAX_VIT)
    style: dict[str, Any] = dict(stem=MaxViTStem(channels=_STEMS[size]), head=Classes(1000, Pooler(pool=NormedPool())))
    return MaxViT(**dict(stages=layers) | style | fields)


CARD = Card(
    title="MaxViT",
    examples=(
        Example(
            model=MaxViT(
                stages=(
                    Stage(8, 1, 2),
                    Stage(16, 1, 4),
                ),
                stem=MaxViTStem(channels=4, stride=1),
                mixer=WindowAttention(side=2),
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/max_vit_fashion.py",
            limits="microbatches without a `group` of its batch normalization",
        ),
    ),
    presets=(
        Preset(
            build=max_vit,
            paper="Tu et al. 2022, table 1",
            remark="heads of 32 channels, windows of 7",
            sizes={
                "T": Size(30_916_528),
                "S": Size(68_927_956),
                "B": Size(119_467_708),
                "L": Size(211_785_560),
                "XL": Size(474_951_952),
            },
            slow=("S", "B", "L"),
        ),
    ),
    systems=(
        System(
            name="MaxViT",
            config="configs/vision/max_vit_fashion.py",
            score="86.6%",
            presets=(max_vit,),
            equal_to="[the formulas in numpy](tests/models/test_max_vit.py)",
            compiled="XL on v5p:4x4x4",
        ),
    ),
)
