"""Models: a model's fields are its config."""

from typing import TYPE_CHECKING

from txjax.lazy_names import import_lazily

if TYPE_CHECKING:
    from txjax.models.hierarchical import Stage
    from txjax.models.model import Model
    from txjax.models.transformer import Transformer
    from txjax.models.transformer_stack import TransformerStack
    from txjax.models.vision.vit.prefix_tokens import ClassToken
else:
    __getattr__ = import_lazily(__name__)

__all__ = [
    "Model",
    "Stage",
    "Transformer",
]
