"""The masked autoencoder (He et al. 2022): `ViTMAEForPreTraining`, and its encoder `ViTMAEModel`, which is a ViT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.interop.huggingface.family import Family, Inputs, apply_with_intermediates, only_attention, select_inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import TOKEN, Flat, Names, Rule, linear, norm
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.mae.mae import MAE as Model
from txjax.models.vision.vit.vit import ViT
from txjax.nn import MLP, Sinusoidal2D, patchify
from txjax.types import PyTree

_TABLE = "decoder.decoder_pos_embed"


class MAE(Family):
    model_type = "vit_mae"
    architectures = ("ViTMAEForPreTraining", "ViTMAEModel")
    txjax_model = "`MAE`, `ViT`"
    outputs = (
        "logits",
        "loss",
        "mask",
        "ids_restore",
        "last_hidden_state",
    )
    inputs = ("pixel_values", "noise", "mask_ratio", "norm_pix_loss")

    def matches(self, model: Any) -> bool:
        bare = isinstance(model, ViT) and model.head is None and isinstance(model.positions, Sinusoidal2D)
        return bare or isinstance(model, Model)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        fields = patches.fields(options)
        width = fields["width"]
        image = fields["image_size"]
        patch = fields["patch"]
        activation = options.activation("hidden_act", "gelu")
        hidden = options.size("intermediate_size", 3072)
        if options.values["architectures"] == ["ViTMAEModel"]:
            positions = patches.positions(tensors, {patches.TABLE: width}, image, patch)
            mlp = MLP(hidden=hidden, activation=activation)
            return ViT(**fields, positions=positions, mlp=mlp)
        narrow = options.size("decoder_hidden_size", 512)
        inner = options.size("decoder_intermediate_size", 2048)
        mlp = MLP(hidden=hidden, activation=activation)
        if inner != hidden:
            mlp = MLP(ratio=hidden / width, activation=activation)
        if (mlp.hidden_size(width), mlp.hidden_size(narrow)) != (hidden, inner):
            expected = f"{mlp.hidden_size(narrow)}, in the encoder's ratio, or {hidden} as in the encoder"
            raise options.refuse("decoder_intermediate_size", expected, inner)
        return Model(
            **fields,
            positions=patches.positions(tensors, {patches.TABLE: width, _TABLE: narrow}, image, patch),
            mlp=mlp,
            decoder_width=narrow,
            decoder_depth=options.size("decoder_num_hidden_layers", 8),
            decoder_heads=options.size("decoder_num_attention_heads", 16),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        if isinstance(model, ViT):
            return patches.config(model, flat) | {"architectures": ["ViTMAEModel"]}
        return patches.config(model, flat) | {
            "architectures": ["ViTMAEForPreTraining"],
            "decoder_hidden_size": model.decoder_width,
            "decoder_intermediate_size": model.mlp.hidden_size(model.decoder_width),
            "decoder_num_hidden_layers": model.decoder_depth,
            "decoder_num_attention_heads": model.decoder_heads,
        }

    def names(self, options: Options) -> Names:
        renamed = {"decoder.decoder_encoder.layer.": "decoder.decoder_layers."}
        return Names("vit.", renamed=renamed, heads=("decoder", "classifier", "vit.pooler.dense"))

    def rules(self, model: Any) -> list[Rule]:
        if isinstance(model, ViT):
            return patches.encoder(model)
        return [
            *patches.encoder(model),
            *linear("decoder.decoder_embed", "decoder/embed"),
            Rule("decoder.mask_token", ("decoder/mask_token",), TOKEN),
            *patches.table(model, _TABLE, "decoder/positions/table/embedding"),
            *patches.layer("decoder.decoder_layers.{}", "decoder/layers/block", only_attention(model)),
            *norm("decoder.decoder_norm", "decoder/norm_final"),
            *linear("decoder.decoder_pred", "decoder/out"),
        ]

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        decoder = {} if isinstance(model, ViT) else {_TABLE: model.decoder_width}
        return patches.constants(model, {patches.TABLE: model.width} | decoder)

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return patches.example(model, options)

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """Hides the patches with the largest `noise` [B N]; `mask_ratio` (0.75) and `norm_pix_loss` are settings."""
        image, noise = select_inputs(inputs, {"pixel_values": "image", "noise": "noise"}, required=2).values()
        image = patches.pixels(image)
        (keep, hidden) = patches.hide(noise, inputs.get("mask_ratio", 0.75))
        output, intermediates = apply_with_intermediates(model, variables, ("norm_final",), image, keep)
        outputs = {"last_hidden_state": intermediates["norm_final"], **hidden}
        if isinstance(model, ViT):
            return outputs
        target = patchify(image, model.patch)
        if inputs.get("norm_pix_loss", False):
            spread = jnp.sqrt(target.var(-1, keepdims=True, ddof=1) + 1e-6)
            target = (target - target.mean(-1, keepdims=True)) / spread
        error = jnp.square(output - target).mean(-1)
        return outputs | {"logits": output, "loss": (error * hidden["mask"]).sum() / hidden["mask"].sum()}
