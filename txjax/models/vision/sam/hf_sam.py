"""The Segment Anything Model (Kirillov et al. 2023): `SamModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data.point_labels import CORNERS, NO_POINT
from txjax.interop.huggingface.family import Family, Inputs, select_inputs
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import Flat, Names, Rule
from txjax.interop.huggingface.shared.patches import pixels
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.sam.decomposed_attention import DecomposedAttention, DecomposedWindowAttention
from txjax.models.vision.sam.hf_sam_rules import decoder_rules, encoder_rules, image_side, prompt_rules
from txjax.models.vision.sam.random_fourier import RandomFourier
from txjax.models.vision.sam.sam import SAM as Model
from txjax.models.vision.vit.vit import ViT
from txjax.nn import (
    MLP,
    LayerNorm,
    Learned,
    PeriodicStack,
    PositionedAttention,
    PositionedCrossAttention,
    PreNormWithoutFinal,
)
from txjax.nn.attention.mixer import PROJECTIONS
from txjax.parametrization import head_size
from txjax.types import PyTree

_FOURIER = "shared_image_embedding.positional_embedding"


class SAM(Family):
    model_type = "sam"
    architectures = ("SamModel",)
    txjax_model = "`SAM` with a `ViT` of `stack=PeriodicStack()`"
    outputs = (
        "pred_masks",
        "iou_scores",
    )
    inputs = ("pixel_values", "input_points", "input_labels", "input_boxes", "input_masks", "multimask_output")
    not_written = ("fourier.seed", "fourier.deviation", "fourier.frequencies")

    def matches(self, model: Any) -> bool:
        return (
            isinstance(model, Model)
            and isinstance(model.encoder, ViT)
            and isinstance(model.encoder.stack, PeriodicStack)
        )

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        vision, prompts, decoder = (_part(options, name) for name in ("vision", "prompt_encoder", "mask_decoder"))
        width = decoder.size("hidden_size", 256)
        patch = vision.size("patch_size", 16)
        image = vision.size("image_size", 1024)
        vision.require(output_channels=width, use_abs_pos=True, use_rel_pos=True, num_pos_feats=width // 2)
        same = {"hidden_size": width, "image_size": image, "patch_size": patch, "num_point_embeddings": 4}
        prompts.require(**same, layer_norm_eps=1e-6)
        decoder.require(iou_head_depth=3, hidden_act="relu", layer_norm_eps=1e-6)
        side = image // patch
        eps = vision.get("layer_norm_eps", 1e-6)
        vision_width = vision.size("hidden_size", 768)
        heads = decoder.size("num_attention_heads", 8)
        hidden = vision.values.get("mlp_dim") or int(vision.get("mlp_ratio", 4.0) * vision_width)
        encoder = ViT(
            patch=patch,
            width=vision_width,
            depth=vision.size("num_hidden_layers", 12),
            heads=vision.size("num_attention_heads", 12),
            image_size=(image, image),
            class_token=None,
            positions=Learned(max_length=side**2),
            mixer=_attentions(vision, side),
            mlp=MLP(hidden=hidden, activation=vision.activation("hidden_act", "gelu")),
            norm=LayerNorm(eps=eps),
            block=PreNormWithoutFinal(),
            stack=PeriodicStack(),
        )
        matrix = tensors[_FOURIER].read()[::-1] if _FOURIER in tensors else np.zeros((0,))  # theirs has columns first
        return Model(
            encoder=encoder,
            width=width,
            depth=decoder.size("num_hidden_layers", 2),
            heads=heads,
            mixer=PositionedAttention(),
            cross=PositionedCrossAttention(
                head_size=width // decoder.size("attention_downsample_rate", 2) // heads,
            ),
            mlp=MLP(hidden=decoder.size("mlp_dim", 2048), activation="relu"),
            masks=decoder.size("num_multimask_outputs", 3),
            iou_hidden=decoder.size("iou_head_hidden_dim", 256),
            fourier=RandomFourier(frequencies=tuple(float(frequency) for frequency in matrix.reshape(-1))),
            mask_channels=prompts.size("mask_input_channels", 16),
            activation=prompts.activation("hidden_act", "gelu"),
        )

    def config(self, model: Model, flat: Flat) -> dict[str, Any]:
        encoder = model.encoder
        assert isinstance(encoder, ViT)
        image = image_side(encoder)
        kinds = encoder.mixers()
        sizes = {"image_size": image, "patch_size": encoder.patch}
        everywhere = [i for i in range(encoder.depth) if not _in_windows(kinds[i % len(kinds)])]
        window = next((mixer.side for mixer in kinds if isinstance(mixer, DecomposedWindowAttention)), 14)
        vision = sizes | {
            "hidden_size": encoder.width,
            "output_channels": model.width,
            "num_pos_feats": model.width // 2,
            "num_hidden_layers": encoder.depth,
            "num_attention_heads": encoder.heads,
            "num_channels": flat["encoder/patch_embed/kernel"].shape[0] // encoder.patch**2,
            "hidden_act": their_activation(encoder.mlp.activation),
            "mlp_dim": encoder.mlp.hidden_size(encoder.width),
            "layer_norm_eps": encoder.norm.eps,
            "qkv_bias": any(map(kinds[0].has_bias, PROJECTIONS[:3])),
            "attention_dropout": kinds[0].dropout,
            "window_size": window,
            "global_attn_indexes": everywhere,
        }
        prompts = sizes | {
            "hidden_size": model.width,
            "mask_input_channels": model.mask_channels,
            "hidden_act": their_activation(model.activation),
        }
        crossed = model.heads * head_size(model.width, model.heads, model.cross.head_size)
        decoder = {
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "attention_downsample_rate": model.width // crossed,
            "mlp_dim": model.mlp.hidden_size(model.width),
            "num_multimask_outputs": model.masks,
            "iou_head_hidden_dim": model.iou_hidden,
        }
        parts = {"vision_config": vision, "prompt_encoder_config": prompts, "mask_decoder_config": decoder}
        return {"architectures": ["SamModel"]} | parts

    def names(self, options: Options) -> Names:
        return Names(copies={"prompt_encoder.shared_embedding.positional_embedding": _FOURIER})

    def constants(self, model: Model) -> dict[str, np.ndarray]:
        return {_FOURIER: np.ascontiguousarray(model.fourier.matrix(model.width)[::-1])}

    def rules(self, model: Model) -> list[Rule]:
        return [*encoder_rules(model.encoder), *prompt_rules(), *decoder_rules(model)]

    def example(self, model: Model, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        encoder = model.encoder
        assert isinstance(encoder, ViT)
        image = image_side(encoder)
        channels = _part(options, "vision").get("num_channels", 3)
        side = 4 * (image // encoder.patch)
        return {
            "image": jax.ShapeDtypeStruct((1, image, image, channels), jnp.float32),
            "points": jax.ShapeDtypeStruct((1, 1, 1, 2), jnp.float32),
            "point_labels": jax.ShapeDtypeStruct((1, 1, 1), jnp.int32),
            "mask": jax.ShapeDtypeStruct((1, 1, side, side), jnp.float32),
        }

    def forward(self, model: Model, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """Points (x, y) and boxes (x, y, x, y) are in pixels; with points and no box a point of label -1 is added."""
        image = pixels(select_inputs(inputs, {"pixel_values": "image"})["image"])
        prompts = []
        if "input_points" in inputs:
            points = inputs["input_points"]
            labels = inputs.get("input_labels", jnp.ones(points.shape[:3], jnp.int32))
            if "input_boxes" not in inputs:
                points = jnp.concatenate([points, jnp.zeros_like(points[:, :, :1])], 2)
                labels = jnp.concatenate([labels, jnp.full_like(labels[:, :, :1], NO_POINT)], 2)
            prompts.append((points, labels))
        if "input_boxes" in inputs:
            corners = inputs["input_boxes"].reshape(*inputs["input_boxes"].shape[:2], 2, 2)
            prompts.append((corners, jnp.broadcast_to(jnp.asarray(CORNERS, jnp.int32), corners.shape[:3])))
        prompt: dict[str, jax.Array] = {}
        if prompts:
            points, labels = (jnp.concatenate(parts, 2) for parts in zip(*prompts, strict=True))
            points = (points[..., ::-1].astype(jnp.float32) + 0.5) / image.shape[1]  # of squares
            prompt = {"points": points, "point_labels": labels}
        if "input_masks" in inputs:
            mask = inputs["input_masks"]
            objects = prompt["points"].shape[1] if prompt else 1
            prompt["mask"] = jnp.broadcast_to(mask, (len(mask), objects, *mask.shape[2:]))
        masks, ious = model.apply(variables, image, **prompt)
        wanted = slice(1, None) if inputs.get("multimask_output", True) else slice(0, 1)
        return {"pred_masks": masks[:, :, wanted], "iou_scores": ious[:, :, wanted]}


def _part(options: Options, name: str) -> Options:
    """The options of one of the three parts."""
    return options.part(f"{name}_config")


def _attentions(vision: Options, side: int) -> tuple[DecomposedAttention, ...]:
    """One period of the encoder's attentions: the fewest layers that repeat."""
    depth = vision.size("num_hidden_layers", 12)
    everywhere = vision.values.get("global_attn_indexes", [2, 5, 8, 11])
    window = vision.get("window_size", 14)
    fields: dict[str, Any] = {
        "biases": PROJECTIONS if vision.get("qkv_bias", True) else ("out",),
        "dropout": float(vision.get("attention_dropout", 0.0)),
    }
    local = [window > 0 and i not in everywhere for i in range(depth)]
    period = next(n for n in range(1, depth + 1) if depth % n == 0 and local == local[:n] * (depth // n))
    kinds = ((DecomposedWindowAttention, window) if near else (DecomposedAttention, side) for near in local[:period])
    return tuple(kind(side=size, **fields) for kind, size in kinds)


def _in_windows(attention: Any) -> bool:
    return isinstance(attention, DecomposedWindowAttention)
