"""MaskGIT's tokenizer of images (Chang et al. 2022)."""

from txjax.models.vision.vq_tokenizer.vq_tokenizer import VQTokenizer

__all__ = ["VQTokenizer"]
