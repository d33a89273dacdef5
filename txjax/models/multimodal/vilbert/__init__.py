"""ViLBERT (Lu et al. 2019)."""

from txjax.models.multimodal.vilbert.card import vilbert
from txjax.models.multimodal.vilbert.regions import GivenRegions, GridRegions, Regions
from txjax.models.multimodal.vilbert.vilbert import ViLBERT

__all__ = ["GivenRegions", "GridRegions", "Regions", "ViLBERT", "vilbert"]
