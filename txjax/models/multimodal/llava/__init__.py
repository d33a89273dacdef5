"""LLaVA (Liu et al. 2023): a language model that reads images."""

from txjax.models.multimodal.llava.llava import LLaVA
from txjax.models.multimodal.llava.projectors import LinearProjector, MLPProjector, Projector

__all__ = ["LLaVA", "LinearProjector", "MLPProjector", "Projector"]
