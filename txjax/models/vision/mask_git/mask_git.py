"""MaskGIT's Transformer: a BERT of an image's class and of its visual tokens."""

from typing import Any

from txjax.models.text.bert.bert import Bert
from txjax.nn import MLP, Learned


def mask_git(codes: int, classes: int, patches: int, **fields: Any) -> Bert:
    """A `Bert` for `objectives.MaskedVisualTokens` (Chang et al. 2022, 3.2 and the authors' code).

    Its vocabulary has the codes, then the classes, then the mask; its first token is the class.

    Args:
      codes: of the tokenizer.
      classes: of the images.
      patches: tokens of an image.
      fields: further ones of `Bert`, such as width, depth and heads.
    """
    style: dict[str, Any] = dict(types=None, positions=Learned(max_length=1 + patches), mlp=MLP(activation="gelu_tanh"))
    return Bert(**dict(vocab=codes + classes + 1) | style | fields)
