"""Swin (Liu et al. 2021)."""

from txjax.models.vision.swin.swin import Swin, shifted_windows

__all__ = ["Swin", "shifted_windows"]
