"""Wav2Vec2-Conformer (Wang et al. 2020, fairseq S2T): `Wav2Vec2ConformerForCTC`."""

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
from txjax.models.audio.conformer.conformer_block import ConformerBlockWithFinal
from txjax.models.audio.conformer.conv_module import ConvModule
from txjax.models.audio.conformer.hf_conv_module import conv_module
from txjax.models.audio.conformer.rotated_inputs import RotatedInputs
from txjax.nn import MLP, BatchNorm, Rotary, TokenClasses
from txjax.nn.attention.relative_attention import RelativeAttention, RelativeSinusoidal
from txjax.nn.audio.waveform_convs import WaveformConvs, WaveformSamples
from txjax.types import PyTree

_ENCODER = "wav2vec2_conformer.encoder"
_UNUSED = f"{_ENCODER}.pos_conv_embed"  # a convolution that the class has and never calls
_PROJECTIONS = {"query": "linear_q", "key": "linear_k", "value": "linear_v", "out": "linear_out"}
_MLPS = {"ffn1": "mlp_first", "ffn2": "mlp"}
_NORMS = {
    "ffn1_layer_norm": "mlp_first",
    "self_attn_layer_norm": "attention",
    "conv_module.layer_norm": "convolution",
    "ffn2_layer_norm": "mlp",
    "final_layer_norm": "out",
}
_POSITIONS = {"relative": RelativeAttention, "rotary": RotatedInputs}


class Wav2Vec2Conformer(Family):
    model_type = "wav2vec2-conformer"
    architectures = ("Wav2Vec2ConformerForCTC",)
    txjax_model = "`Conformer` with `WaveformConvs`"
    inputs = ("input_values", "attention_mask")
    outputs = ("logits",)
    state = (STATISTICS,)
    not_written = ("front_end", "block.conv.norm.group", "block.conv.norm.momentum")

    def matches(self, model: Any) -> bool:
        if not isinstance(model, Conformer) or not isinstance(model.block, ConformerBlockWithFinal):
            return False
        parts = (model.subsampling, model.block.conv, model.head)
        kinds = (WaveformConvs, ConvModule, TokenClasses)
        return (
            all(map(isinstance, parts, kinds))
            and isinstance(model.block.conv.norm, BatchNorm)
            and isinstance(model.mixer, tuple(_POSITIONS.values()))
        )

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Conformer:
        options.require(feat_extract_norm="layer", layer_norm_eps=1e-5, add_adapter=False)
        embedding = options.get("position_embeddings_type", "relative")
        if embedding not in _POSITIONS:
            raise options.refuse("position_embeddings_type", " or ".join(_POSITIONS), embedding)
        theta = options.get("rotary_embedding_base", 10000.0)
        dropout = options.shared_rate("hidden_dropout", "conformer_conv_dropout", 0.1)
        activation = options.activation("hidden_act", "gelu")
        convolutions: dict[str, Any] = {
            field: _numbers(options, key, default) for key, (field, default) in _CONVOLUTIONS.items()
        }
        return Conformer(
            width=options.size("hidden_size", 768),
            depth=options.size("num_hidden_layers", 12),
            heads=options.size("num_attention_heads", 12),
            front_end=WaveformSamples(),
            subsampling=WaveformConvs(
                **convolutions,
                use_bias=options.get("conv_bias", False),
                activation=options.activation("feat_extract_activation", "gelu"),
            ),
            reads_padding=True,
            positions=Rotary(theta=theta) if embedding == "rotary" else RelativeSinusoidal(),
            mixer=_POSITIONS[embedding](dropout=options.get("attention_dropout", 0.1)),
            mlp=MLP(
                hidden=options.size("intermediate_size", 3072),
                activation=activation,
                dropout=options.get("activation_dropout", 0.1),
            ),
            block=ConformerBlockWithFinal(
                conv=ConvModule(
                    kernel=options.size("conv_depthwise_kernel_size", 31), activation=activation, use_bias=False
                )
            ),
            dropout=dropout,
            head=TokenClasses(options.size("vocab_size", 32)),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        stem = model.subsampling
        mixer = only_attention(model)
        convolutions = {key: list(getattr(stem, field)) for key, (field, _) in _CONVOLUTIONS.items()}
        return {
            "architectures": list(self.architectures),
            "vocab_size": model.head.classes,
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            **convolutions,
            "conv_bias": stem.use_bias,
            "feat_extract_norm": "layer",
            "feat_extract_activation": their_activation(stem.activation),
            "layer_norm_eps": 1e-5,
            "position_embeddings_type": "rotary" if isinstance(mixer, RotatedInputs) else "relative",
            "rotary_embedding_base": int(model.positions.theta),
            "conv_depthwise_kernel_size": model.block.conv.kernel,
            "attention_dropout": mixer.dropout,
            "activation_dropout": model.mlp.dropout,
            "hidden_dropout": model.dropout,
            "conformer_conv_dropout": model.dropout,
            "add_adapter": False,
            "mask_time_prob": 0.0,  # else the class has a vector for masked frames, which only its training reads
            "mask_feature_prob": 0.0,
            "num_conv_pos_embeddings": 1,  # as small as can be
            "num_conv_pos_embedding_groups": model.width,
        }

    def names(self, options: Options) -> Names:
        return Names(
            prefix="wav2vec2_conformer.",
            buffers=r"num_batches_tracked$|inv_freq$",
            heads=(_UNUSED, "wav2vec2_conformer.masked_spec_embed"),
        )

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """The numbers of batches seen, the convolution that is never called, and the frequencies of the rotation."""
        conv = f"{_UNUSED}.conv"
        width = model.width
        constants = {
            f"{_ENCODER}.layers.{i}.conv_module.batch_norm.num_batches_tracked": np.zeros((), np.float32)
            for i in range(model.depth)
        } | {
            f"{conv}.bias": np.zeros(width, np.float32),
            f"{conv}.parametrizations.weight.original0": np.ones((1, 1, 1), np.float32),
            f"{conv}.parametrizations.weight.original1": np.ones((width, 1, 1), np.float32),
        }
        if isinstance(model.positions, Rotary):
            size = width // model.heads
            exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
            constants[f"{_ENCODER}.embed_positions.inv_freq"] = 1 / np.float32(model.positions.theta) ** exponents
        return constants

    def rules(self, model: Any) -> list[Rule]:
        stem = "wav2vec2_conformer"
        theirs = f"{_ENCODER}.layers.{{}}"
        ours = "layers/block"
        entries = [
            *norm(f"{stem}.feature_projection.layer_norm", "stem/norm_out"),
            *linear(f"{stem}.feature_projection.projection", "stem/out"),
            *projections(f"{theirs}.self_attn", f"{ours}/attention", _PROJECTIONS, only_attention(model)),
            *conv_module(f"{theirs}.conv_module", f"{ours}/convolution", "batch_norm", bias=False),
            *norm(f"{_ENCODER}.layer_norm", "norm_final"),
            *linear("lm_head", "head"),
        ]
        if isinstance(model.mixer, RelativeAttention):
            attention = f"{ours}/attention"
            entries += [
                Rule(f"{theirs}.self_attn.linear_pos.weight", (f"{attention}/relative/kernel",), out_in()),
                Rule(f"{theirs}.self_attn.pos_bias_u", (f"{attention}/content_bias",), SAME),
                Rule(f"{theirs}.self_attn.pos_bias_v", (f"{attention}/position_bias",), SAME),
            ]
        for i in range(len(model.subsampling.channels)):
            layer = f"{stem}.feature_extractor.conv_layers.{i}"
            entries += linear(f"{layer}.conv", f"stem/conv_{i}", kernel(), model.subsampling.use_bias)
            entries += norm(f"{layer}.layer_norm", f"stem/norm_{i}")
        for their_name, name in _MLPS.items():
            entries += linear(f"{theirs}.{their_name}.intermediate_dense", f"{ours}/{name}/up")
            entries += linear(f"{theirs}.{their_name}.output_dense", f"{ours}/{name}/down")
        for their_name, name in _NORMS.items():
            entries += norm(f"{theirs}.{their_name}", f"{ours}/norm_{name}")
        return entries

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"features": jax.ShapeDtypeStruct((1, model.subsampling.window(), 1), jnp.float32)}

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        samples = select_inputs(inputs, {"input_values": "features"})["features"]
        length = inputs["attention_mask"].sum(1) if "attention_mask" in inputs else None
        return {"logits": model.apply(variables, samples[..., None], length)}


# The fields of the convolutions by their keys, and the keys' defaults.
_CONVOLUTIONS = {
    "conv_dim": ("channels", (512,) * 7),
    "conv_kernel": ("sizes", (10, 3, 3, 3, 3, 2, 2)),
    "conv_stride": ("strides", (5, 2, 2, 2, 2, 2, 2)),
}


def _numbers(options: Options, key: str, default: tuple[int, ...]) -> tuple[int, ...]:
    """A list of positive integers, one for each convolution."""
    values = options.values.get(key, list(default))
    if not isinstance(values, list) or not values or not all(type(value) is int and value > 0 for value in values):
        raise options.refuse(key, "a list of numbers of at least 1", values)
    for value in values:
        options.check_limit(key, value)
    return tuple(values)
