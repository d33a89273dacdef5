"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.transformer import sized
from txjax.models.vision.sam.sam import SAM, windows_then_all
from txjax.models.vision.vit.presets import SIZES
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Learned, Periods, PreNormWithoutFinal

# Layers of a period, of which the last one attends everywhere (Kirillov et al. 2023, A; sizes as in ViT)
SAM_PERIODS = {"B": 3, "L": 6, "H": 8}


def sam_encoder(size: str = "B", image: int = 1024, **fields: Any) -> ViT:
    """SAM's encoder of square images of this side: windows of 14 x 14 patches of 16 x 16 pixels, four global layers."""
    plain, side = sized(size, SIZES), image // 16
    positions, attention = Learned(max_length=side**2), windows_then_all(SAM_PERIODS[size], 14, side)
    style: dict[str, Any] = dict(patch=16, class_token=None, image_size=(image, image), positions=positions)
    layers: dict[str, Any] = dict(attention=attention, block=PreNormWithoutFinal(), stack=Periods())
    return ViT(**plain | style | layers | fields)


def sam(size: str = "B", **fields: Any) -> SAM:
    """The Segment Anything Model (Kirillov et al. 2023) of images of 1024 x 1024 pixels."""
    return SAM(**dict(encoder=sam_encoder(size)) | fields)
