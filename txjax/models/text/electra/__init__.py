"""ELECTRA (Clark et al. 2020)."""

from txjax.models.text.electra.electra import Electra
from txjax.models.text.electra.shared_embeddings import GradientDisentangled, Separate, Shared, Sharing

__all__ = ["Electra", "GradientDisentangled", "Separate", "Shared", "Sharing"]
