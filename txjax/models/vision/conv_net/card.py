"""The family's card."""

from txjax.models.cards import CLASSES, EXAMPLE_TASKS, Card, Example
from txjax.models.vision.conv_net.conv_net import ConvNet
from txjax.nn import ObjectBoxes

CARD = Card(
    title="a small convolutional network",
    examples=(
        Example(
            model=ConvNet(width=8, depth=2, stages=2),
            objectives=EXAMPLE_TASKS | {"SetPrediction": ObjectBoxes(CLASSES)},
            returns="what its `head` gives",
            config="configs/vision/conv_digits.py",
        ),
    ),
)
