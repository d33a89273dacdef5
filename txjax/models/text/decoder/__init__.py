"""Decoders of one stack: GPT, GPT-2, GPT-3, GPT-Neo, Llama."""

from txjax.models.text.decoder.decoder import Decoder, gpt, gpt_neo, llama

__all__ = ["Decoder", "gpt", "gpt_neo", "llama"]
