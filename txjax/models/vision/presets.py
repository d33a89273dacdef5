"""Published sizes of image models. Every field can be overridden by an argument or a flag.

    presets.vit("B/16", head=Classes(10, FirstToken()), positions=Learned(max_length=577))  # for 384 x 384 pixels

`docs/sizes.md` has their parameter counts.
"""

from typing import Any

from txjax.models.transformer import sized
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Learned

# width, depth, heads (Dosovitskiy et al. 2021, table 1)
_SIZES: dict[str, tuple[int, int, int]] = {"B": (768, 12, 12), "L": (1024, 24, 16), "H": (1280, 32, 16)}
VIT: dict[str, tuple[int, int, int]] = {f"{size}/{p}": _SIZES[size] for size, p in (("B", 16), ("L", 16), ("H", 14))}


def vit(size: str = "B/16", **fields: Any) -> ViT:
    """The Vision Transformer (Dosovitskiy et al. 2021): 1,000 classes, 224 x 224 pixels."""
    plain, patch = sized(size, VIT), int(size.split("/")[1])
    head, positions = Classes(1000, FirstToken()), Learned(max_length=(224 // patch) ** 2 + 1)
    style: dict[str, Any] = dict(patch=patch, head=head, positions=positions)
    return ViT(**plain | style | fields)


def mae(size: str = "B/16", **fields: Any) -> MAE:
    """The masked autoencoder (He et al. 2022): a decoder of width 512, 8 layers and 16 heads."""
    plain, patch = sized(size, VIT), int(size.split("/")[1])
    return MAE(**plain | dict(patch=patch) | fields)
