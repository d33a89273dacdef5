"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

import math
from typing import Any, NamedTuple

from txjax.models.cards import EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.published_sizes import look_up
from txjax.models.vision.efficient_net.efficient_net import EfficientNet, InvertedStage, scaled_width
from txjax.models.vision.efficient_net.inverted_residuals import InvertedStem
from txjax.nn import Classes, MeanTokens


class Scale(NamedTuple):
    """A published size: what the sizes of B0 are multiplied by, and the images it is for.

    Attributes:
      width, depth: factors of channels and of layers.
      resolution: rows and columns of its images.
      dropout: of the head.
    """

    width: float
    depth: float
    resolution: int
    dropout: float


# Tan and Le 2019, section 4, as in the authors' code; L2 is Xie et al. 2020, table 7
EFFICIENTNET = {
    "B0": Scale(1.0, 1.0, 224, 0.2),
    "B1": Scale(1.0, 1.1, 240, 0.2),
    "B2": Scale(1.1, 1.2, 260, 0.3),
    "B3": Scale(1.2, 1.4, 300, 0.3),
    "B4": Scale(1.4, 1.8, 380, 0.4),
    "B5": Scale(1.6, 2.2, 456, 0.4),
    "B6": Scale(1.8, 2.6, 528, 0.5),
    "B7": Scale(2.0, 3.1, 600, 0.5),
    "L2": Scale(4.3, 5.3, 800, 0.5),
}
# Of B0 (Tan and Le 2019, table 1).
STAGES = (
    InvertedStage(16, 1, side=3, ratio=1, stride=1),
    InvertedStage(24, 2, side=3),
    InvertedStage(40, 2, side=5),
    InvertedStage(80, 3, side=3),
    InvertedStage(112, 3, side=5, stride=1),
    InvertedStage(192, 4, side=5),
    InvertedStage(320, 1, side=3, stride=1),
)


def efficientnet(size: str = "B0", **fields: Any) -> EfficientNet:
    """EfficientNet (Tan and Le 2019), and the L2 of Noisy Student (Xie et al. 2020): 1,000 classes."""
    width, depth, resolution, dropout = look_up(size, EFFICIENTNET)
    stages = [
        InvertedStage(
            scaled_width(stage.width, width),
            math.ceil(depth * stage.depth),
            side=stage.side,
            ratio=stage.ratio,
            stride=stage.stride,
        )
        for stage in STAGES
    ]
    style: dict[str, Any] = dict(
        stages=tuple(stages),
        stem=InvertedStem(channels=scaled_width(32, width)),
        features=scaled_width(1280, width),
        resolution=resolution,
        head_dropout=dropout,
        head=Classes(1000, MeanTokens()),
    )
    return EfficientNet(**style | fields)


CARD = Card(
    title="EfficientNet",
    examples=(
        Example(
            model=EfficientNet(
                stages=(InvertedStage(8, 1, ratio=1, stride=1), InvertedStage(12, 2, ratio=2)),
                stem=InvertedStem(channels=4, conv_stride=1),
                features=16,
            ),
            objectives=EXAMPLE_TASKS,
            returns="what its `head` gives",
            config="configs/vision/efficientnet_fashion.py",
            limits="microbatches without a `group` of its batch normalization",
        ),
    ),
    presets=(
        Preset(
            build=efficientnet,
            paper="Tan and Le 2019; L2: Xie et al. 2020",
            remark="without the statistics of batches",
            sizes={
                "B0": Size(5_288_548),
                "B1": Size(7_794_184),
                "B2": Size(9_109_994),
                "B3": Size(12_233_232),
                "B4": Size(19_341_616),
                "B5": Size(30_389_784),
                "B6": Size(43_040_704),
                "B7": Size(66_347_960),
                "L2": Size(480_309_308),
            },
            reference="EfficientNetForImageClassification",
        ),
    ),
    systems=(
        System(
            name="EfficientNet",
            config="configs/vision/efficientnet_fashion.py",
            score="89.3%",
            presets=(efficientnet,),
            equal_to="[EfficientNetForImageClassification](tests/models/test_efficient_net.py)",
            compiled="not compiled yet",
        ),
    ),
)
