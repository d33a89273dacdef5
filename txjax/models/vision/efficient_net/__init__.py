"""EfficientNet (Tan and Le 2019)."""

from txjax.models.vision.efficient_net.efficient_net import EfficientNet, InvertedStage
from txjax.models.vision.efficient_net.inverted_residuals import (
    InvertedDownsampling,
    InvertedResidual,
    InvertedStem,
    PlainResidual,
)

__all__ = [
    "EfficientNet",
    "InvertedDownsampling",
    "InvertedResidual",
    "InvertedStage",
    "InvertedStem",
    "PlainResidual",
]
