"""UniT (Hu and Singh 2021)."""

from txjax.models.multimodal.unit.map_encoder import MapEncoder
from txjax.models.multimodal.unit.unit import DecodedTask, UniT

__all__ = ["DecodedTask", "UniT"]
