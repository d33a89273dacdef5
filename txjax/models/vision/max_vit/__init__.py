"""MaxViT (Tu et al. 2022)."""

from txjax.models.vision.max_vit.max_vit import MaxViT, MaxViTStem
from txjax.models.vision.max_vit.max_vit_block import MaxViTBlock
from txjax.models.vision.max_vit.mb_conv import MBConv

__all__ = ["MBConv", "MaxViT", "MaxViTBlock", "MaxViTStem"]
