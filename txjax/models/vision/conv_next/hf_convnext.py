"""ConvNeXt (Liu et al. 2022): `ConvNextForImageClassification` and `ConvNextModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import Flat, Names, Rule, convolution, kernel, linear, norm
from txjax.interop.huggingface.shared.stages import Stages, numbers, scale, stages
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.conv_next.conv_next import ConvNeXt as Model
from txjax.nn import MLP, DepthwiseConv, LayerNorm, NormedPatches, NormedPool, PatchEmbedding, SingleBranch


class ConvNeXt(Stages):
    model_type = "convnext"
    architectures = ("ConvNextForImageClassification", "ConvNextModel")
    txjax_model = "`ConvNeXt`"
    outputs = (
        "logits",
        "pooler_output",
    )

    def matches(self, model: Any) -> bool:
        usual = isinstance(model, Model) and isinstance(model.stem, PatchEmbedding)
        return usual and isinstance(model.downsample, NormedPatches) and isinstance(model.mixer, DepthwiseConv)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        last = LayerNorm(eps=options.get("layer_norm_eps", 1e-12))
        return Model(
            stages=stages(options, numbers(options, "hidden_sizes", [96, 192, 384, 768])),
            stem=PatchEmbedding(patch=options.size("patch_size", 4)),
            mlp=MLP(activation=options.activation("hidden_act", "gelu")),
            block=SingleBranch(layer_scale=scale(options), drop_path=options.get("drop_path_rate", 0.0)),
            head=self.head(options, tensors, NormedPool(norm=last)),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        stem = model.stem.patch
        last = getattr(getattr(model.head, "pool", None), "norm", None) or model.norm
        return self.architecture_entries(model) | {
            "hidden_sizes": [stage.width for stage in model.stages],
            "depths": [stage.depth for stage in model.stages],
            "num_stages": len(model.stages),
            "patch_size": stem,
            "num_channels": flat["downsample_0/linear/kernel"].shape[0] // stem**2,
            "hidden_act": their_activation(model.mlp.activation),
            "layer_scale_init_value": model.block.layer_scale or 0.0,
            "drop_path_rate": model.block.drop_path,
            "layer_norm_eps": last.eps,
        }

    def names(self, options: Options) -> Names:
        return Names("convnext.", heads=(self.linear,))

    def rules(self, model: Any) -> list[Rule]:
        embeddings = "convnext.embeddings"
        entries = [
            *linear(f"{embeddings}.patch_embeddings", "downsample_0/linear", convolution(model.stem.patch)),
            *norm(f"{embeddings}.layernorm", "downsample_0/norm"),
        ]
        for i in range(len(model.stages)):
            stage = f"convnext.encoder.stages.{i}"
            ours = f"stages_{i}/layers/block"
            if i:
                patch = convolution(model.downsample.patch)
                entries += norm(f"{stage}.downsampling_layer.0", f"downsample_{i}/norm")
                entries += linear(f"{stage}.downsampling_layer.1", f"downsample_{i}/linear", patch)
            theirs = f"{stage}.layers.{{}}"
            entries += linear(f"{theirs}.dwconv", f"{ours}/mixer/conv", kernel())
            entries += norm(f"{theirs}.layernorm", f"{ours}/norm_mlp")
            entries += linear(f"{theirs}.pwconv1", f"{ours}/mlp/up")
            entries += linear(f"{theirs}.pwconv2", f"{ours}/mlp/down")
            if model.block.layer_scale is not None:
                entries.append(Rule(f"{theirs}.layer_scale_parameter", (f"{ours}/scale_mlp",)))
        return [*entries, *norm("convnext.layernorm", "norm_final"), *self.classifier(model)]
