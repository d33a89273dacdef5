"""The Audio Spectrogram Transformer (Gong et al. 2021)."""

from txjax.models.audio.spectrogram_transformer.spectrogram_transformer import SpectrogramTransformer

__all__ = ["SpectrogramTransformer"]
