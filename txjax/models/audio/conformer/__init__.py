"""Conformer (Gulati et al. 2020) and its relatives."""

from txjax.models.audio.conformer.conformer import Conformer
from txjax.models.audio.conformer.conformer_block import ConformerBlock
from txjax.models.audio.conformer.conv_module import ConvModule

__all__ = ["Conformer", "ConformerBlock", "ConvModule"]
