"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.transformer import sized
from txjax.models.vision.mae.mae import MAE
from txjax.models.vision.vit.presets import VIT


def mae(size: str = "B/16", **fields: Any) -> MAE:
    """The masked autoencoder (He et al. 2022): a decoder of width 512, 8 layers and 16 heads."""
    plain, patch = sized(size, VIT), int(size.split("/")[1])
    return MAE(**plain | dict(patch=patch) | fields)
