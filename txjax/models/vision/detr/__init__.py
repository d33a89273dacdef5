"""DETR (Carion et al. 2020)."""

from txjax.models.vision.detr.detr import DETR
from txjax.models.vision.detr.map_positions import LearnedMap, MapPositions, SineMap

__all__ = ["DETR", "LearnedMap", "MapPositions", "SineMap"]
