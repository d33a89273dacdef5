"""ViT (Dosovitskiy et al. 2021)."""

from txjax.models.vision.vit.vit import ViT

__all__ = ["ViT"]
