"""Published sizes. Every field can be overridden by an argument or a flag."""

from typing import Any

from txjax.models.vision.vq_tokenizer.vq_tokenizer import VQTokenizer


def vq_tokenizer(**fields: Any) -> VQTokenizer:
    """MaskGIT's tokenizer (Chang et al. 2022, 4.1): a token has 16 x 16 pixels, and there are 1,024 codes."""
    return VQTokenizer(**dict(width=128, depth=2, codes=1024) | fields)
