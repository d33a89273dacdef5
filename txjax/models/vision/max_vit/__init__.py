"""MaxViT (Tu et al. 2022)."""

from txjax.models.vision.max_vit.max_vit import MaxViT, MaxViTStem
from txjax.models.vision.max_vit.mb_conv import MBConv
from txjax.models.vision.max_vit.multi_axis import MultiAxis

__all__ = ["MBConv", "MaxViT", "MaxViTStem", "MultiAxis"]
