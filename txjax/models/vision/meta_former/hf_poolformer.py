"""PoolFormer (Yu et al. 2022): `PoolFormerForImageClassification`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import Flat, Names, Rule, TensorLayout, kernel, linear, norm
from txjax.interop.huggingface.shared.stages import (
    Stages,
    embedded_by,
    embedding_entries,
    embeddings,
    numbers,
    scale,
    stages,
)
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.meta_former.meta_former import MetaFormer as Model
from txjax.nn import MLP, ConvEmbedding, MeanTokens, Pooling, PreNorm

# A dense layer's kernel [in out] as a convolution of 1 x 1: [out in 1 1].
_POINTWISE = TensorLayout(lambda x: x.T[:, :, None, None], lambda x, shape: x[:, :, 0, 0].T.reshape(shape))
_EMBEDDING = ("patch_sizes", "strides", "padding")


class PoolFormer(Stages):
    model_type = "poolformer"
    architectures = ("PoolFormerForImageClassification",)
    txjax_model = "`MetaFormer`"
    outputs = ("logits",)

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model) and isinstance(model.mixer, Pooling) and embedded_by(model, ConvEmbedding)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        widths = numbers(options, "hidden_sizes", [64, 128, 320, 512])
        return Model(
            stages=stages(options, widths),
            **embeddings(options, len(widths), _EMBEDDING, ConvEmbedding),
            mixer=Pooling(side=options.size("pool_size", 3)),
            mlp=MLP(ratio=options.get("mlp_ratio", 4.0), activation=options.activation("hidden_act", "gelu")),
            block=PreNorm(
                layer_scale=scale(options) if options.get("use_layer_scale", True) else None,
                drop_path=options.get("drop_path_rate", 0.0),
            ),
            head=self.head(options, tensors, MeanTokens()),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        return (
            self.architecture_entries(model)
            | embedding_entries(model, _EMBEDDING)
            | {
                "hidden_sizes": [stage.width for stage in model.stages],
                "depths": [stage.depth for stage in model.stages],
                "num_encoder_blocks": len(model.stages),
                "pool_size": model.mixer.side,
                "num_channels": flat["downsample_0/conv/kernel"].shape[2],
                "mlp_ratio": model.mlp.ratio,
                "hidden_act": their_activation(model.mlp.activation),
                "use_layer_scale": model.block.layer_scale is not None,
                "layer_scale_init_value": model.block.layer_scale or 1e-5,
                "drop_path_rate": model.block.drop_path,
            }
        )

    def names(self, options: Options) -> Names:
        return Names()

    def rules(self, model: Any) -> list[Rule]:
        entries = []
        for i in range(len(model.stages)):
            embeddings = f"poolformer.encoder.patch_embeddings.{i}.projection"
            entries += linear(embeddings, f"downsample_{i}/conv", kernel())
            theirs = f"poolformer.encoder.block.{i}.{{}}"
            ours = f"stages_{i}/layers/block"
            entries += norm(f"{theirs}.before_norm", f"{ours}/norm_mixer")
            entries += norm(f"{theirs}.after_norm", f"{ours}/norm_mlp")
            entries += linear(f"{theirs}.output.conv1", f"{ours}/mlp/up", _POINTWISE)
            entries += linear(f"{theirs}.output.conv2", f"{ours}/mlp/down", _POINTWISE)
            if model.block.layer_scale is not None:
                entries.append(Rule(f"{theirs}.layer_scale_1", (f"{ours}/scale_mixer",)))
                entries.append(Rule(f"{theirs}.layer_scale_2", (f"{ours}/scale_mlp",)))
        return [*entries, *norm("norm", "norm_final"), *self.classifier(model)]
