"""SAM (Kirillov et al. 2023)."""

from txjax.models.vision.sam.decomposed_attention import DecomposedAttention, DecomposedWindowAttention
from txjax.models.vision.sam.mask_decoder import Upsampling
from txjax.models.vision.sam.random_fourier import RandomFourier
from txjax.models.vision.sam.sam import SAM, windows_then_all
from txjax.models.vision.sam.two_way import FirstTokens, TwoWay

__all__ = [
    "DecomposedAttention",
    "DecomposedWindowAttention",
    "FirstTokens",
    "RandomFourier",
    "SAM",
    "TwoWay",
    "Upsampling",
    "windows_then_all",
]
