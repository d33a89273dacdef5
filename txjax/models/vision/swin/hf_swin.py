"""The Swin Transformer (Liu et al. 2021): `SwinForImageClassification` and `SwinModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface import rules
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, convolution, linear, norm
from txjax.interop.huggingface.shared.stages import Stages, numbers, stages
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.swin.swin import Swin as Model
from txjax.models.vision.swin.swin import shifted_windows
from txjax.nn import MLP, LayerNorm, MeanTokens, PatchEmbedding, PatchMerging, PreNorm, WindowAttention
from txjax.nn.attention.mixer import PROJECTIONS


class Swin(Stages):
    model_type = "swin"
    architectures = ("SwinForImageClassification", "SwinModel")
    txjax_model = "`Swin`"
    outputs = (
        "logits",
        "pooler_output",
    )

    def matches(self, model: Any) -> bool:
        if not isinstance(model, Model) or not isinstance(model.stem, PatchEmbedding):
            return False
        if not isinstance(model.downsample, PatchMerging):
            return False
        return all(isinstance(attention, WindowAttention) for attention in model.mixers())

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        options.require(use_absolute_embeddings=False, layer_norm_eps=1e-5)
        depths = numbers(options, "depths", [2, 2, 6, 2])
        width = options.size("embed_dim", 96)
        if max(depths) > 1 and any(depth % 2 for depth in depths):
            expected = "even numbers, as every second layer shifts its windows, or only ones"
            raise options.refuse("depths", expected, depths)
        widths = [width * 2**i for i in range(len(depths))]
        attention: dict[str, Any] = {
            "biases": PROJECTIONS if options.get("qkv_bias", True) else ("out",),
            "dropout": options.get("attention_probs_dropout_prob", 0.0),
        }
        windows = shifted_windows(options.size("window_size", 7))[: max(depths)]  # a stage of one layer shifts none
        return Model(
            stages=stages(options, widths, numbers(options, "num_heads", [3, 6, 12, 24])),
            stem=PatchEmbedding(patch=options.size("patch_size", 4)),
            norm=LayerNorm(eps=1e-5),
            mixer=tuple(window.clone(**attention) for window in windows),
            mlp=MLP(ratio=options.get("mlp_ratio", 4.0), activation=options.activation("hidden_act", "gelu")),
            block=PreNorm(drop_path=options.get("drop_path_rate", 0.1)),
            dropout=options.get("hidden_dropout_prob", 0.0),
            head=self.head(options, tensors, MeanTokens()),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        attention = model.mixers()[0]
        stem = model.stem.patch
        return self.architecture_entries(model) | {
            "embed_dim": model.stages[0].width,
            "depths": [stage.depth for stage in model.stages],
            "num_heads": [stage.heads for stage in model.stages],
            "window_size": attention.side,
            "patch_size": stem,
            "num_channels": flat["downsample_0/linear/kernel"].shape[0] // stem**2,
            "mlp_ratio": model.mlp.ratio,
            "hidden_act": their_activation(model.mlp.activation),
            "hidden_dropout_prob": model.dropout,
            "attention_probs_dropout_prob": attention.dropout,
            "drop_path_rate": model.block.drop_path,
            "layer_norm_eps": model.norm.eps,
            "qkv_bias": any(map(attention.has_bias, ("query", "key", "value"))),
        }

    def names(self, options: Options) -> Names:
        return Names("swin.", buffers=r"relative_position_index$", heads=(self.linear,))

    def rules(self, model: Any) -> list[Rule]:
        embeddings = "swin.embeddings"
        entries = [
            *linear(f"{embeddings}.patch_embeddings.projection", "downsample_0/linear", convolution(model.stem.patch)),
            *norm(f"{embeddings}.norm", "downsample_0/norm"),
        ]
        for i in range(len(model.stages)):
            if i:
                merging = f"swin.encoder.layers.{i - 1}.downsample"
                ours = f"downsample_{i}"
                entries += [
                    *norm(f"{merging}.norm", f"{ours}/norm"),
                    *linear(f"{merging}.reduction", f"{ours}/linear", bias=False),
                ]
            theirs = f"swin.encoder.layers.{i}.blocks.{{}}"
            ours = f"stages_{i}/layers/block"
            table = f"{theirs}.attention.self.relative_position_bias_table"
            norms = ("layernorm_before", "layernorm_after")
            entries += rules.layer(theirs, ours, "self", norms, model.mixers()[0])
            entries.append(Rule(table, (f"{ours}/attention/table",), SAME))
        return [*entries, *norm("swin.layernorm", "norm_final"), *self.classifier(model)]
