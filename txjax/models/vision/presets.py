"""Published sizes of image models. Every field can be overridden by an argument or a flag.

    presets.vit("B/16", head=Classes(10, FirstToken()), positions=Learned(max_length=577))  # for 384 x 384 pixels

`docs/sizes.md` has their parameter counts.
"""

from collections.abc import Mapping
from typing import Any

from txjax.models.hierarchical import Stage
from txjax.models.transformer import sized
from txjax.models.vision.cvt import CvT
from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.nn import Classes, FirstToken, Learned
from txjax.types import UserError, near_misses

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


Sizes = tuple[tuple[int, ...], ...]  # of every stage: widths, depths and, where there are some, heads


def stages(size: str, sizes: Mapping[str, Sizes]) -> tuple[Stage, ...]:
    """The stages of a published size. Raises UserError for an unknown one."""
    if size not in sizes:
        raise UserError("size", "one of " + ", ".join(sizes), size, near_misses(size, sizes))
    return tuple(Stage(*stage) for stage in zip(*sizes[size], strict=True))


# Wu et al. 2021, table 2
CVT: dict[str, Sizes] = {
    "13": ((64, 192, 384), (1, 2, 10), (1, 3, 6)),
    "21": ((64, 192, 384), (1, 4, 16), (1, 3, 6)),
    "W24": ((192, 768, 1024), (2, 2, 20), (3, 12, 16)),
}


def cvt(size: str = "13", **fields: Any) -> CvT:
    """The Convolutional vision Transformer (Wu et al. 2021): 1,000 classes, images of any size."""
    return CvT(**dict(stages=stages(size, CVT), head=Classes(1000, FirstToken())) | fields)
