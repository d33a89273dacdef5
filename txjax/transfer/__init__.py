"""Transfer of parameters from other runs: which ones, under which paths, and how an axis of another size is resized."""

from txjax.transfer.origin import From
from txjax.transfer.resize import Bicubic, Bilinear, Every, First, Last, Linear1D, ResizeAxis
from txjax.transfer.spectrograms import CutOrStretch, SummedChannels
from txjax.transfer.words import Words

__all__ = [
    "Bicubic",
    "Bilinear",
    "CutOrStretch",
    "Every",
    "First",
    "From",
    "Last",
]
