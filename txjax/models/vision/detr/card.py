"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import CLASSES, EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.hierarchical import Stage
from txjax.models.published_sizes import look_up
from txjax.models.vision.detr.detr import DETR
from txjax.models.vision.meta_former.meta_former import MetaFormer
from txjax.models.vision.res_net.card import resnet
from txjax.nn import MLP, ConvEmbedding, FrozenBatchNorm, ObjectBoxes, PositionedAttention, PositionedCrossAttention

# The sizes of the backbone
BACKBONES = {"R50": "50", "R101": "101"}


def detr(size: str = "R50", **fields: Any) -> DETR:
    """DETR (Carion et al. 2020) on a ResNet with constant batch norms: 91 classes, 100 queries."""
    backbone = resnet(look_up(size, BACKBONES), norm=FrozenBatchNorm(), head=None)
    style: dict[str, Any] = dict(width=256, depth=6, heads=8, dropout=0.1, head=ObjectBoxes(classes=91))
    parts: dict[str, Any] = dict(
        mixer=PositionedAttention(dropout=0.1),
        cross=PositionedCrossAttention(dropout=0.1),
        mlp=MLP(hidden=2048, activation="relu", dropout=0.1),
    )
    return DETR(**dict(backbone=backbone) | style | parts | fields)


CARD = Card(
    title="DETR",
    examples=(
        Example(
            model=DETR(
                backbone=MetaFormer(stages=(Stage(8, 1),), stem=ConvEmbedding()), width=8, depth=2, heads=2, queries=4
            ),
            objectives=EXAMPLE_TASKS | {"SetPrediction": ObjectBoxes(CLASSES)},
            returns="what its `head` gives",
            config="configs/vision/detr_canvases.py",
        ),
    ),
    presets=(
        Preset(
            build=detr,
            paper="Carion et al. 2020",
            remark="91 classes; batch norms are constants",
            sizes={
                "R50": Size(
                    41_524_768, "the authors' 41,302,368 is without the stem and first stage, which they don't train"
                ),
                "R101": Size(60_464_672),
            },
            reference="DetrForObjectDetection",
        ),
    ),
    systems=(
        System(
            name="DETR",
            config="configs/vision/detr_canvases.py",
            score="AP50 52.8% of digits, 34.6% of clothes",
            presets=(detr,),
            equal_to="[DetrForObjectDetection](tests/interop/test_parity.py), "
            "[its loss](tests/objectives/test_set_prediction.py)",
            compiled="R101 on v5e:8x8",
        ),
    ),
)
