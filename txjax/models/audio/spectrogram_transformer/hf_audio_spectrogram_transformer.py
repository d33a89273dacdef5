"""AST (Gong et al. 2021): `ASTForAudioClassification`, and `ASTModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from txjax.errors import UserError
from txjax.interop.huggingface.family import Family, Inputs, apply_with_intermediates, select_inputs
from txjax.interop.huggingface.options import Options, labels
from txjax.interop.huggingface.rules import TOKEN, Flat, Names, Rule, linear, norm
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.weights import Tensor
from txjax.models.audio.spectrogram_transformer.spectrogram_transformer import SpectrogramTransformer
from txjax.models.vision.vit.prefix_tokens import DistilledToken
from txjax.nn import Classes, Head, Learned, MeanPrefix, NormedPool, Pooled, patch_count
from txjax.types import PyTree

_BASE = "audio_spectrogram_transformer"


class AudioSpectrogramTransformer(Family):
    model_type = "audio-spectrogram-transformer"
    architectures = ("ASTForAudioClassification", "ASTModel")
    txjax_model = "`SpectrogramTransformer`"
    inputs = ("input_values",)
    outputs = ("logits", "last_hidden_state", "pooler_output")
    not_written = ("front_end",)  # of preprocessor_config.json

    def matches(self, model: Any) -> bool:
        return isinstance(model, SpectrogramTransformer)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> SpectrogramTransformer:
        fields = patches.layer_fields(options)
        bins = options.size("num_mel_bins", 128)
        frames = options.size("max_length", 1024)
        stride = options.size("frequency_stride", 10)
        patch = fields["patch"]
        options.require(time_stride=stride)
        if min(bins, frames) < patch:
            raise options.refuse("patch_size", f"at most {min(bins, frames)}, the smaller side of the features", patch)
        head: Head = Pooled(MeanPrefix())
        if options.values["architectures"] == ["ASTForAudioClassification"]:
            weight = tensors.get("classifier.dense.weight")
            head = Classes(weight.shape[0] if weight else 1, NormedPool(MeanPrefix(), name="norm_head"))
        rows, columns = (patch_count(side, patch, stride) for side in (bins, frames))
        return SpectrogramTransformer(
            **fields,
            stride=stride,
            image_size=(bins, frames),
            positions=Learned(max_length=DistilledToken.count + rows * columns),
            mlp=patches.mlp(options),
            reads_padding=True,
            head=head,
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        if not model.image_size:
            hint = "config.json needs them; set them to those of the features, such as (128, 1024)"
            raise UserError("config.model.image_size", "a number of bins and of frames", (), hint=hint)
        bins, frames = model.image_size
        named: dict[str, Any] = {"architectures": ["ASTModel"]}
        if isinstance(model.head, Classes):
            named = {"architectures": ["ASTForAudioClassification"]} | labels(model.head.classes)
        strides = {"frequency_stride": model.stride, "time_stride": model.stride}
        return named | strides | {"num_mel_bins": bins, "max_length": frames} | patches.layer_entries(model)

    def names(self, options: Options) -> Names:
        return Names(f"{_BASE}.", heads=("classifier",))

    def rules(self, model: Any) -> list[Rule]:
        head = [*norm("classifier.layernorm", "norm_head"), *linear("classifier.dense", "head")]
        return [
            *patches.encoder(model, _BASE),
            Rule(f"{_BASE}.embeddings.distillation_token", ("pool/distillation",), TOKEN),
            *(head if isinstance(model.head, Classes) else []),
        ]

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        bins, frames = model.image_size
        return {"features": jax.ShapeDtypeStruct((1, frames, bins), jnp.float32)}

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        features = select_inputs(inputs, {"input_values": "features"})["features"]
        output, intermediates = apply_with_intermediates(model, variables, ("norm_final",), features)
        name = "logits" if isinstance(model.head, Classes) else "pooler_output"
        return {"last_hidden_state": intermediates["norm_final"], name: output}
