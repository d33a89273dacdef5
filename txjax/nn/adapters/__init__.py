"""Adapters: few trained parameters added to a model's modules, by path."""

from txjax.nn.adapters.adapter import Adapter
from txjax.nn.adapters.bottleneck import Bottleneck
from txjax.nn.adapters.lora import LoRA
from txjax.nn.adapters.merge import merge

__all__ = ["Adapter", "Bottleneck", "LoRA", "merge"]
