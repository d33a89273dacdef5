"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.vision.detr.detr import DETR
from txjax.models.vision.res_net.presets import resnet
from txjax.nn import MLP, FrozenBatchNorm, ObjectBoxes, PositionedAttention, PositionedCrossAttention


def detr(size: str = "R50", **fields: Any) -> DETR:
    """DETR (Carion et al. 2020) on a ResNet with constant batch norms: 91 classes, 100 queries."""
    backbone = resnet(size.removeprefix("R"), norm=FrozenBatchNorm(), head=None)
    style: dict[str, Any] = dict(width=256, depth=6, heads=8, dropout=0.1, head=ObjectBoxes(classes=91))
    parts: dict[str, Any] = dict(
        attention=PositionedAttention(dropout=0.1),
        cross=PositionedCrossAttention(dropout=0.1),
        mlp=MLP(hidden=2048, activation="relu", dropout=0.1),
    )
    return DETR(**dict(backbone=backbone) | style | parts | fields)
