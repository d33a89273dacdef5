"""CvT (Wu et al. 2021): `CvtForImageClassification`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import STATISTICS, TOKEN, Flat, Names, Rule, batch_norm, kernel, linear, norm
from txjax.interop.huggingface.rules import projections as projected
from txjax.interop.huggingface.shared.stages import (
    Stages,
    embedded_by,
    embedding_entries,
    embeddings,
    numbers,
    stages,
)
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.cvt.conv_attention import ConvAttention
from txjax.models.vision.cvt.cvt import CvT as Model
from txjax.nn import MLP, BatchNorm, FirstToken, LayerNorm, NormedConvEmbedding, PreNorm
from txjax.nn.attention.mixer import PROJECTIONS

_CONVOLVED = PROJECTIONS[:3]
_EMBEDDING = ("patch_sizes", "patch_stride", "patch_padding")  # side, stride, padding


class CvT(Stages):
    model_type = "cvt"
    architectures = ("CvtForImageClassification",)
    txjax_model = "`CvT`"
    outputs = ("logits",)
    state = (STATISTICS,)
    not_written = ("mixer.norm.group", "mixer.norm.momentum")

    def matches(self, model: Any) -> bool:
        if not isinstance(model, Model) or not isinstance(model.mixer, ConvAttention):
            return False
        usual = embedded_by(model, NormedConvEmbedding) and isinstance(model.mixer.norm, BatchNorm)
        return usual and model.class_token is not None

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        widths = numbers(options, "embed_dim", [64, 192, 384])
        count = len(widths)

        def same(key: str, default: Any) -> Any:
            values = options.values.get(key, [default] * count)
            if not isinstance(values, list) or len(values) < count or any(x != values[0] for x in values[:count]):
                raise options.refuse(key, f"a list of one value for all of {count} stages", values)
            return values[0]

        side = same("kernel_qkv", 3)
        others = [False] * (count - 1)
        options.require(cls_token=[*others, True], qkv_projection_method=["dw_bn"] * count, stride_q=[1] * count)
        options.require(padding_q=[side // 2] * count, padding_kv=[side // 2] * count)
        rates = options.values.get("drop_path_rate", [0.0] * count)
        if len(rates) != count or any(rates[:-1]):
            raise options.refuse("drop_path_rate", f"{count} rates, 0.0 for all stages but the last", rates)
        return Model(
            stages=stages(options, widths, numbers(options, "num_heads", [1, 3, 6]), "depth"),
            **embeddings(options, count, _EMBEDDING, NormedConvEmbedding),
            norm=LayerNorm(eps=1e-5),
            mixer=ConvAttention(
                side=side,
                stride=same("stride_kv", 2),
                biases=PROJECTIONS if same("qkv_bias", True) else ("out",),
                dropout=same("attention_drop_rate", 0.0),
            ),
            mlp=MLP(ratio=same("mlp_ratio", 4.0)),
            block=PreNorm(drop_path=rates[-1]),
            dropout=same("drop_rate", 0.0),
            head=self.head(options, tensors, FirstToken()),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        count = len(model.stages)
        attention = model.mixer
        every: dict[str, Any] = {
            "mlp_ratio": model.mlp.ratio,
            "attention_drop_rate": attention.dropout,
            "drop_rate": model.dropout,
            "qkv_bias": any(map(attention.has_bias, _CONVOLVED)),
            "qkv_projection_method": "dw_bn",
            "kernel_qkv": attention.side,
            "padding_q": attention.side // 2,
            "padding_kv": attention.side // 2,
            "stride_q": 1,
            "stride_kv": attention.stride,
        }
        return (
            self.architecture_entries(model)
            | embedding_entries(model, _EMBEDDING)
            | {key: [value] * count for key, value in every.items()}
            | {
                "embed_dim": [stage.width for stage in model.stages],
                "depth": [stage.depth for stage in model.stages],
                "num_heads": [stage.heads for stage in model.stages],
                "num_channels": flat["downsample_0/conv/kernel"].shape[2],
                "cls_token": [False] * (count - 1) + [True],
                "drop_path_rate": [0.0] * (count - 1) + [model.block.drop_path],
            }
        )

    def names(self, options: Options) -> Names:
        return Names("cvt.")

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """The numbers of batches seen, which averages with a momentum don't depend on."""
        return {
            f"{_convolution(_layer(i).format(layer), name)}.normalization.num_batches_tracked": np.zeros((), np.float32)
            for i, stage in enumerate(model.stages)
            for layer in range(stage.depth)
            for name in _CONVOLVED
        }

    def rules(self, model: Any) -> list[Rule]:
        entries = []
        for i in range(len(model.stages)):
            embeddings = f"cvt.encoder.stages.{i}.embedding.convolution_embeddings"
            entries += linear(f"{embeddings}.projection", f"downsample_{i}/conv", kernel())
            entries += norm(f"{embeddings}.normalization", f"downsample_{i}/norm")
            theirs = _layer(i)
            ours = f"stages_{i}/layers/block"
            for name in _CONVOLVED:
                convolution = _convolution(theirs, name)
                inside = f"{ours}/attention/conv_{name}"
                entries += linear(f"{convolution}.convolution", f"{inside}/conv", kernel(), bias=False)
                entries += batch_norm(f"{convolution}.normalization", f"{inside}/norm")
            names = {name: f"attention.projection_{name}" for name in _CONVOLVED} | {"out": "output.dense"}
            entries += projected(f"{theirs}.attention", f"{ours}/attention", names, model.mixer)
            entries += norm(f"{theirs}.layernorm_before", f"{ours}/norm_attention")
            entries += norm(f"{theirs}.layernorm_after", f"{ours}/norm_mlp")
            entries += linear(f"{theirs}.intermediate.dense", f"{ours}/mlp/up")
            entries += linear(f"{theirs}.output.dense", f"{ours}/mlp/down")
        entries.append(Rule(f"cvt.encoder.stages.{len(model.stages) - 1}.cls_token", ("pool/token",), TOKEN))
        return [*entries, *norm("layernorm", "norm_final"), *self.classifier(model)]


def _layer(stage: int) -> str:
    return f"cvt.encoder.stages.{stage}.layers.{{}}"


def _convolution(layer: str, name: str) -> str:
    return f"{layer}.attention.attention.convolution_projection_{name}.convolution_projection"
