"""The family's card, and its published sizes: every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.cards import CLASSES, EXAMPLE_TASKS, Card, Example, Preset, Size, System
from txjax.models.published_sizes import dimensions_of
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Learned, ObjectBoxes

# width, depth, heads (Dosovitskiy et al. 2021, table 1)
SIZES: dict[str, tuple[int, int, int]] = {"B": (768, 12, 12), "L": (1024, 24, 16), "H": (1280, 32, 16)}
VIT: dict[str, tuple[int, int, int]] = {f"{size}/{p}": SIZES[size] for size, p in (("B", 16), ("L", 16), ("H", 14))}


def vit(size: str = "B/16", **fields: Any) -> ViT:
    """The Vision Transformer (Dosovitskiy et al. 2021): 1,000 classes, 224 x 224 pixels."""
    plain = dimensions_of(size, VIT)
    patch = int(size.split("/")[1])
    head = Classes(1000, FirstToken())
    positions = Learned(max_length=(224 // patch) ** 2 + 1)
    style: dict[str, Any] = dict(patch=patch, head=head, positions=positions)
    return ViT(**plain | style | fields)


CARD = Card(
    title="ViT (on patches or on a network's feature map)",
    examples=(
        Example(
            model=ViT(patch=2, width=8, depth=2, heads=2),
            objectives=EXAMPLE_TASKS | {"SetPrediction": ObjectBoxes(CLASSES)},
            returns="what its `head` gives",
            config="configs/vision/vit_digits.py",
        ),
    ),
    presets=(
        Preset(
            build=vit,
            paper="Dosovitskiy et al. 2021",
            remark="224 pixels, 1,000 classes",
            sizes={
                "B/16": Size(86_567_656),
                "L/16": Size(304_326_632),
                "H/14": Size(632_045_800),
            },
            reference="ViTForImageClassification",
        ),
    ),
    systems=(
        System(
            name="ViT",
            config="configs/vision/vit_digits.py",
            score="99.3%",
            presets=(vit,),
            equal_to="[ViTForImageClassification](tests/interop/test_parity.py)",
            compiled="H/14 on v5e:16x16",
        ),
    ),
)
