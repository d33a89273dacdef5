"""Models: a model's fields are its config."""

from txjax.models.hierarchical import Stage
from txjax.models.model import Model
from txjax.models.transformer import Layers, Transformer
from txjax.models.vision.patch_encoder import ClassToken

__all__ = [
    "ClassToken",
    "Stage",
    "Layers",
    "Model",
    "Transformer",
]
