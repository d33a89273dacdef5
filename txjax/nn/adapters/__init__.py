"""Adapters: few trained parameters added to a model's modules, by path."""

from txjax.nn.adapters.adapter import Adapter
from txjax.nn.adapters.bitfit import BitFit
from txjax.nn.adapters.bottleneck import Bottleneck
from txjax.nn.adapters.dora import DoRA
from txjax.nn.adapters.ia3 import IA3
from txjax.nn.adapters.lora import LoRA, RsLoRA
from txjax.nn.adapters.merge import merge
from txjax.nn.adapters.pixel_prompt import PixelPrompt
from txjax.nn.adapters.prefix import MLPPrefix, Prefix
from txjax.nn.adapters.prompt import DeepPrompt, Prompt

__all__ = [
    "IA3",
    "Adapter",
    "BitFit",
    "Bottleneck",
    "DoRA",
    "LoRA",
    "PixelPrompt",
    "Prefix",
    "Prompt",
    "RsLoRA",
]
