"""Models: a model's fields are its config."""

from txjax.models.hierarchical import Stage
from txjax.models.model import Model
from txjax.models.transformer import Transformer
from txjax.models.transformer_stack import TransformerStack
from txjax.models.vision.vit.prefix_tokens import ClassToken

__all__ = [
    "Model",
    "Stage",
    "Transformer",
]
