"""A reversible decoder (Gomez et al. 2017; Kitaev et al. 2020)."""

from txjax.models.text.reversible.reversible import ReversibleDecoder

__all__ = ["ReversibleDecoder"]
