"""The Transformer (Vaswani et al. 2017), T5 and Marian."""

from txjax.models.text.encoder_decoder.encoder_decoder import EncoderDecoder, t5, t5_v1_1, transformer

__all__ = ["EncoderDecoder", "t5", "t5_v1_1", "transformer"]
