"""ViT (Dosovitskiy et al. 2021): `ViTForImageClassification`, and `ViTModel` with or without its pooler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from txjax.interop.huggingface.family import Family, Inputs, apply_with_intermediates, select_inputs
from txjax.interop.huggingface.options import Options, labels
from txjax.interop.huggingface.rules import Flat, Names, Rule, linear
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.vit.vit import ViT as Model
from txjax.nn import Classes, FirstToken, Head, Pooled, Pooler
from txjax.types import PyTree


class ViT(Family):
    model_type = "vit"
    general = True
    architectures = ("ViTForImageClassification", "ViTModel")
    txjax_model = "`ViT`"
    outputs = (
        "logits",
        "last_hidden_state",
        "pooler_output",
    )
    inputs = ("pixel_values", "noise", "mask_ratio")

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        fields = patches.fields(options)
        width = fields["width"]
        image = fields["image_size"]
        patch = fields["patch"]
        head: Head | None = None
        if options.values["architectures"] == ["ViTForImageClassification"]:
            classes = tensors["classifier.weight"].shape[0] if "classifier.weight" in tensors else 1
            head = Classes(classes, FirstToken())
        elif "vit.pooler.dense.weight" in tensors:
            options.require(pooler_act="tanh")
            if options.get("pooler_output_size", width) != width:
                raise options.refuse(
                    "pooler_output_size", f"hidden_size = {width}", options.get("pooler_output_size", 0)
                )
            head = Pooled(Pooler())
        return Model(
            **fields,
            head=head,
            positions=patches.positions(tensors, {patches.TABLE: width}, image, patch),
            mlp=patches.mlp(options),
        )

    def config(self, model: Model, flat: Flat) -> dict[str, Any]:
        named: dict[str, Any] = {"architectures": ["ViTModel"]}
        if isinstance(model.head, Classes):
            named = {"architectures": ["ViTForImageClassification"]} | labels(model.head.classes)
        return named | patches.config(model, flat)

    def names(self, options: Options) -> Names:
        return Names("vit.", heads=("classifier", "vit.pooler.dense"))

    def rules(self, model: Model) -> list[Rule]:
        pooler = linear("vit.pooler.dense", "pooler") if isinstance(model.head, Pooled) else []
        head = linear("classifier", "head") if isinstance(model.head, Classes) else []
        return [*patches.encoder(model), *pooler, *head]

    def constants(self, model: Model) -> dict[str, np.ndarray]:
        return patches.constants(model, {patches.TABLE: model.width})

    def example(self, model: Model, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return patches.example(model, options)

    def forward(self, model: Model, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """With `noise` [B N], hides the patches where it is largest, as in ViTMAEModel; see `MAE.forward`."""
        image = patches.pixels(select_inputs(inputs, {"pixel_values": "image"})["image"])
        keep, hidden = (
            patches.hide(inputs["noise"], inputs.get("mask_ratio", 0.75)) if "noise" in inputs else (None, {})
        )
        output, intermediates = apply_with_intermediates(model, variables, ("norm_final",), image, keep)
        outputs = {"last_hidden_state": intermediates["norm_final"], **hidden}
        if isinstance(model.head, Classes):
            return outputs | {"logits": output}
        return outputs | ({"pooler_output": output} if isinstance(model.head, Pooled) else {})
