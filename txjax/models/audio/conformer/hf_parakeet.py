"""Parakeet (Rekesh et al. 2023, Fast Conformer): `ParakeetForCTC`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.interop.huggingface.family import Family, Inputs, only_attention, select_inputs
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import (
    SAME,
    STATISTICS,
    Flat,
    Names,
    Rule,
    kernel,
    linear,
    norm,
    out_in,
    projections,
)
from txjax.interop.huggingface.weights import Tensor
from txjax.models.audio.conformer.conformer import Conformer
from txjax.models.audio.conformer.conformer_block import ConformerBlock
from txjax.models.audio.conformer.conv_module import ConvModule
from txjax.models.audio.conformer.hf_conv_module import conv_module
from txjax.nn import MLP, BatchNorm, TokenClasses
from txjax.nn.attention.relative_attention import RelativeAttention
from txjax.nn.audio.front_ends import parakeet
from txjax.nn.audio.subsampling import SeparableSubsampling
from txjax.types import PyTree

_ENCODER = "encoder_config"
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"}
_MLPS = {"feed_forward1": "mlp_first", "feed_forward2": "mlp"}
_NORMS = _MLPS | {"self_att": "attention", "conv": "convolution", "out": "out"}


class Parakeet(Family):
    model_type = "parakeet_ctc"
    architectures = ("ParakeetForCTC",)
    txjax_model = "`Conformer` with `SeparableSubsampling`"
    inputs = ("input_features", "attention_mask")
    outputs = ("logits",)
    state = (STATISTICS,)
    not_written = ("front_end", "block.conv.norm.group", "block.conv.norm.momentum")

    def matches(self, model: Any) -> bool:
        if not isinstance(model, Conformer) or type(model.block) is not ConformerBlock:
            return False
        parts = (model.mixer, model.subsampling, model.block.conv, model.head)
        kinds = (RelativeAttention, SeparableSubsampling, ConvModule, TokenClasses)
        return all(map(isinstance, parts, kinds)) and isinstance(model.block.conv.norm, BatchNorm)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Conformer:
        encoder = options.part(_ENCODER)
        encoder.require(subsampling_conv_kernel_size=3, subsampling_conv_stride=2)
        classes = options.size("vocab_size", 1025)
        options.require(pad_token_id=classes - 1)  # the blank
        kernel = encoder.size("conv_kernel_size", 9)
        factor = encoder.size("subsampling_factor", 8)
        if kernel % 2 == 0:
            raise encoder.refuse("conv_kernel_size", "an odd number", kernel)
        if factor & (factor - 1) or factor == 1:
            raise encoder.refuse("subsampling_factor", "a power of two", factor)
        activation = encoder.activation("hidden_act", "silu")
        biases = encoder.get("attention_bias", True)
        return Conformer(
            width=encoder.size("hidden_size", 1024),
            depth=encoder.size("num_hidden_layers", 24),
            heads=encoder.size("num_attention_heads", 8),
            front_end=parakeet(encoder.size("num_mel_bins", 80)),
            subsampling=SeparableSubsampling(factor=factor, channels=encoder.size("subsampling_conv_channels", 256)),
            scale_exponent=0.5 if encoder.get("scale_input", True) else 0.0,
            mixer=RelativeAttention(use_bias=biases, dropout=encoder.get("attention_dropout", 0.1)),
            mlp=MLP(
                hidden=encoder.size("intermediate_size", 4096),
                activation=activation,
                use_bias=biases,
                dropout=encoder.get("activation_dropout", 0.1),
            ),
            block=ConformerBlock(
                conv=ConvModule(kernel=kernel, activation=activation, use_bias=encoder.get("convolution_bias", True))
            ),
            dropout=encoder.get("dropout", 0.1),
            head=TokenClasses(classes),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        subsampling = model.subsampling
        conv = model.block.conv
        attention = only_attention(model)
        encoder = {
            "model_type": "parakeet_encoder",
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            "attention_bias": attention.use_bias or model.mlp.use_bias,
            "convolution_bias": conv.use_bias,
            "conv_kernel_size": conv.kernel,
            "subsampling_factor": subsampling.factor,
            "subsampling_conv_channels": subsampling.channels,
            "subsampling_conv_kernel_size": 3,
            "subsampling_conv_stride": 2,
            "num_mel_bins": flat["stem/out/kernel"].shape[0] // subsampling.channels * subsampling.factor,
            "scale_input": model.scale_exponent > 0,
            "attention_dropout": attention.dropout,
            "activation_dropout": model.mlp.dropout,
            "dropout": model.dropout,
        }
        classes = model.head.classes
        return {
            "architectures": list(self.architectures),
            "vocab_size": classes,
            "pad_token_id": classes - 1,
            _ENCODER: encoder,
        }

    def names(self, options: Options) -> Names:
        return Names(buffers=r"num_batches_tracked$")

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """The numbers of batches seen, which averages with a momentum don't depend on."""
        layers = range(model.depth)
        return {f"encoder.layers.{i}.conv.norm.num_batches_tracked": np.zeros((), np.float32) for i in layers}

    def rules(self, model: Any) -> list[Rule]:
        theirs = "encoder.layers.{}"
        ours = "layers/block"
        entries = [
            *linear("encoder.subsampling.linear", "stem/out"),
            *linear("encoder.subsampling.layers.0", "stem/conv_0", kernel()),
            *projections(f"{theirs}.self_attn", f"{ours}/attention", _PROJECTIONS, only_attention(model)),
            Rule(f"{theirs}.self_attn.relative_k_proj.weight", (f"{ours}/attention/relative/kernel",), out_in()),
            Rule(f"{theirs}.self_attn.bias_u", (f"{ours}/attention/content_bias",), SAME),
            Rule(f"{theirs}.self_attn.bias_v", (f"{ours}/attention/position_bias",), SAME),
            *conv_module(f"{theirs}.conv", f"{ours}/convolution", "norm", model.block.conv.use_bias),
            *linear("ctc_head", "head", kernel(1)),
        ]
        for their_name, name in _MLPS.items():
            for their_layer, layer in (("linear1", "up"), ("linear2", "down")):
                bias = model.mlp.use_bias
                entries += linear(f"{theirs}.{their_name}.{their_layer}", f"{ours}/{name}/{layer}", bias=bias)
        for their_name, name in _NORMS.items():
            entries += norm(f"{theirs}.norm_{their_name}", f"{ours}/norm_{name}")
        for i in range(1, model.subsampling.steps):
            entries += linear(f"encoder.subsampling.layers.{3 * i - 1}", f"stem/conv_{i}", kernel())
            entries += linear(f"encoder.subsampling.layers.{3 * i}", f"stem/pointwise_{i}", kernel(2))
        return entries

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        bins = options.part(_ENCODER).size("num_mel_bins", 80)
        return {"features": jax.ShapeDtypeStruct((1, model.subsampling.factor, bins), jnp.float32)}

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        features = select_inputs(inputs, {"input_features": "features"})
        length = inputs["attention_mask"].sum(1) if "attention_mask" in inputs else None
        return {"logits": model.apply(variables, **features, features_length=length)}
