"""DeBERTa (He et al. 2021, 2023)."""

from txjax.models.text.deberta.apply_again import apply_again
from txjax.models.text.deberta.deberta import Deberta, MaskDecoder, deberta_v3
from txjax.models.text.deberta.disentangled_attention import DisentangledAttention
from txjax.models.text.deberta.relative_embeddings import RelativeEmbeddings, log_bucket

__all__ = [
    "Deberta",
    "DisentangledAttention",
    "MaskDecoder",
    "RelativeEmbeddings",
    "apply_again",
    "deberta_v3",
    "log_bucket",
]
