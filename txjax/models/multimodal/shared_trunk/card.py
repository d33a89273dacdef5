"""The family's card."""

from txjax.models.cards import CLASSES, VOCAB, Card, Example
from txjax.models.multimodal.shared_trunk.shared_trunk import SharedTrunk
from txjax.nn import Classes, MeanTokens

CARD = Card(
    title="one trunk for images and texts",
    examples=(
        Example(
            model=SharedTrunk(
                vocab=VOCAB,
                patch=2,
                width=8,
                depth=2,
                heads=2,
                tasks={"images": Classes(CLASSES, MeanTokens()), "texts": Classes(CLASSES, MeanTokens())},
            ),
            objectives={"MultiTask": None},
            returns="what the head of the task gives",
            config="configs/multimodal/one_trunk.py",
        ),
    ),
)
