"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.transformer import sized
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Classes, FirstToken, Learned

# width, depth, heads (Dosovitskiy et al. 2021, table 1)
SIZES: dict[str, tuple[int, int, int]] = {"B": (768, 12, 12), "L": (1024, 24, 16), "H": (1280, 32, 16)}
VIT: dict[str, tuple[int, int, int]] = {f"{size}/{p}": SIZES[size] for size, p in (("B", 16), ("L", 16), ("H", 14))}


def vit(size: str = "B/16", **fields: Any) -> ViT:
    """The Vision Transformer (Dosovitskiy et al. 2021): 1,000 classes, 224 x 224 pixels."""
    plain, patch = sized(size, VIT), int(size.split("/")[1])
    head, positions = Classes(1000, FirstToken()), Learned(max_length=(224 // patch) ** 2 + 1)
    style: dict[str, Any] = dict(patch=patch, head=head, positions=positions)
    return ViT(**plain | style | fields)
