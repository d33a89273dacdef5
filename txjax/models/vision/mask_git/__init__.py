"""MaskGIT (Chang et al. 2022)."""

from txjax.models.vision.mask_git.mask_git import mask_git

__all__ = ["mask_git"]
