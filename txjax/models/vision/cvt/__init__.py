"""CvT (Wu et al. 2021)."""

from txjax.models.vision.cvt.conv_attention import ConvAttention
from txjax.models.vision.cvt.cvt import CvT

__all__ = ["ConvAttention", "CvT"]
