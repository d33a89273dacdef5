"""ConvNeXt (Liu et al. 2022)."""

from txjax.models.vision.conv_next.conv_next import ConvNeXt

__all__ = ["ConvNeXt"]
