"""The family's card."""

from txjax.models.cards import VOCAB, Card, Example
from txjax.models.multimodal.two_towers.towers import CLIPImageTower, FixedLengthText
from txjax.models.multimodal.two_towers.two_towers import TwoTowers
from txjax.nn import FirstToken, LastToken, Learned, NormedPool, Projected

CARD = Card(
    title="an image tower and a text tower (CLIP, SigLIP)",
    examples=(
        Example(
            model=TwoTowers(
                vision=CLIPImageTower(patch=2, width=8, depth=2, heads=2, head=Projected(4, NormedPool(FirstToken()))),
                text=FixedLengthText(
                    vocab=VOCAB,
                    width=8,
                    depth=2,
                    heads=2,
                    positions=Learned(max_length=5),
                    head=Projected(4, LastToken()),
                ),
            ),
            objectives={"SigmoidContrastive": None, "SoftmaxContrastive": None},
            returns="`PairFeatures`",
            config="configs/multimodal/clip_stamps.py",
        ),
    ),
)
