"""CLIP (Radford et al. 2021) and SigLIP (Zhai et al. 2023): an image tower and a text tower."""

from txjax.models.multimodal.two_towers.probe_pool import ProbePool
from txjax.models.multimodal.two_towers.towers import CLIPImageTower, FixedLengthText, SigLIPImageTower
from txjax.models.multimodal.two_towers.two_towers import TwoTowers

__all__ = ["CLIPImageTower", "FixedLengthText", "ProbePool", "SigLIPImageTower", "TwoTowers"]
