"""Layers of Transformers: one idea a file."""

from txjax.nn.attention import Attention, LayerContext, head_size, rotate
from txjax.nn.attention_dispatch import dot_product_attention
from txjax.nn.aux_outputs import AUX_COLLECTIONS, sow_aux
from txjax.nn.block import Block, PostNorm, PreNorm, set_model_fields
from txjax.nn.cache import Window, cached, causal_window, update_cache
from txjax.nn.context_parallel import AllGatherKV, ContextParallel, RingAttention
from txjax.nn.embed import Embed, Head, Tied, TiedBias, Untied
from txjax.nn.experts import Capacity, Dropless, Experts, GatedExperts, Routing
from txjax.nn.init import GPT2, Init, Normal, Xavier
from txjax.nn.linear import Linear, align, parameter, project
from txjax.nn.logits import Logits
from txjax.nn.mask import Mask
from txjax.nn.mlp import ACTIVATIONS, MLP, GatedMLP
from txjax.nn.norms import LayerNorm, Norm, RMSNorm
from txjax.nn.patch import patchify, unpatchify
from txjax.nn.positions import (
    Alibi,
    Grid,
    Learned,
    NoPositions,
    Positions,
    Rotary,
    Sinusoidal,
    Sinusoidal2D,
    T5Relative,
)
from txjax.nn.quantize import Quantize, quantized
from txjax.nn.remat import REMAT, Remat, checkpoint_name
from txjax.nn.stack import Stack

__all__ = [
    "ACTIVATIONS",
    "GPT2",
    "MLP",
    "AUX_COLLECTIONS",
    "Alibi",
    "Attention",
    "Block",
    "Capacity",
    "LayerContext",
    "Dropless",
    "Embed",
    "Experts",
    "GatedExperts",
    "GatedMLP",
    "AllGatherKV",
    "Grid",
    "Head",
    "Init",
    "ContextParallel",
    "LayerNorm",
    "Learned",
    "Linear",
    "Logits",
    "Mask",
    "NoPositions",
    "Norm",
    "Normal",
    "Positions",
    "PostNorm",
    "PreNorm",
    "REMAT",
    "Quantize",
    "RMSNorm",
    "RingAttention",
    "Remat",
    "Rotary",
    "Sinusoidal",
    "Sinusoidal2D",
    "Routing",
    "Stack",
    "T5Relative",
    "Tied",
    "TiedBias",
    "Untied",
    "Window",
    "Xavier",
    "align",
    "dot_product_attention",
    "cached",
    "causal_window",
    "set_model_fields",
    "head_size",
    "checkpoint_name",
    "parameter",
    "patchify",
    "project",
    "quantized",
    "update_cache",
    "rotate",
    "sow_aux",
    "unpatchify",
]
