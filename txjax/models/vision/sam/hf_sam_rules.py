"""The tensors of SAM's files: image encoder, prompt encoder, mask decoder."""

from __future__ import annotations

from typing import Any

from txjax.interop.huggingface.rules import (
    ROWS,
    SAME,
    Rule,
    TensorLayout,
    convolution,
    in_out,
    kernel,
    linear,
    norm,
    out_in,
    projections,
)
from txjax.models.vision.sam.sam import SAM
from txjax.models.vision.vit.vit import ViT
from txjax.nn import Learned
from txjax.nn.attention.mixer import PROJECTIONS

_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}
# Their names of the tokens' attentions; the norms are numbered in the order of the branches.
_TOKENS = {"attention": "self_attn", "cross": "cross_attn_token_to_image"}
_UPSAMPLED = TensorLayout(lambda x: x.transpose(0, 3, 1, 2), lambda x, shape: x.transpose(0, 2, 3, 1).reshape(shape))


def image_side(encoder: ViT) -> int:
    """The side of the encoder's images, which its positions imply."""
    assert isinstance(encoder.positions, Learned)
    return round(encoder.positions.max_length**0.5) * encoder.patch


def encoder_rules(encoder: Any) -> list[Rule]:
    """The rules of the image encoder and its neck."""
    side = image_side(encoder) // encoder.patch
    square = TensorLayout(lambda x: x.reshape(1, side, side, -1))
    entries = [
        *linear("vision_encoder.patch_embed.projection", "encoder/patch_embed", convolution(encoder.patch)),
        Rule("vision_encoder.pos_embed", ("encoder/positions/table/embedding",), square),
    ]
    kinds = encoder.mixers()
    for i, attention in enumerate(kinds):
        theirs = "vision_encoder.layers.{}"
        ours = f"encoder/layers/block/kind_{i}"
        three = [f"{ours}/attention/{name}" for name in PROJECTIONS[:3]]
        layer = [
            *norm(f"{theirs}.layer_norm1", f"{ours}/norm_attention"),
            Rule(f"{theirs}.attn.qkv.weight", tuple(f"{path}/kernel" for path in three), in_out(), out_in()),
            *linear(f"{theirs}.attn.proj", f"{ours}/attention/out", out_in(2)),
            Rule(f"{theirs}.attn.rel_pos_h", (f"{ours}/attention/rows",), SAME),
            Rule(f"{theirs}.attn.rel_pos_w", (f"{ours}/attention/columns",), SAME),
            *norm(f"{theirs}.layer_norm2", f"{ours}/norm_mlp"),
            *linear(f"{theirs}.mlp.lin1", f"{ours}/mlp/up"),
            *linear(f"{theirs}.mlp.lin2", f"{ours}/mlp/down"),
        ]
        if attention.has_bias("query"):
            layer.append(Rule(f"{theirs}.attn.qkv.bias", tuple(f"{path}/bias" for path in three)))
        entries += [rule._replace(first=i, step=len(kinds)) for rule in layer]
    neck = "vision_encoder.neck"
    return [
        *entries,
        *linear(f"{neck}.conv1", "neck/linear", convolution(1), bias=False),
        *norm(f"{neck}.layer_norm1", "neck/norm_1"),
        *linear(f"{neck}.conv2", "neck/conv", kernel(), bias=False),
        *norm(f"{neck}.layer_norm2", "neck/norm_2"),
    ]


def prompt_rules() -> list[Rule]:
    """The rules of the prompt encoder."""
    here = "prompt_encoder"
    return [
        Rule(f"{here}.point_embed.{{}}.weight", ("prompts/labels/embedding",), ROWS),
        Rule(f"{here}.not_a_point_embed.weight", ("prompts/no_point",), ROWS),
        Rule(f"{here}.no_mask_embed.weight", ("prompts/no_mask",), ROWS),
        *(
            rule
            for i in (1, 2)
            for rule in (
                *linear(f"{here}.mask_embed.conv{i}", f"prompts/conv_{i}", kernel()),
                *norm(f"{here}.mask_embed.layer_norm{i}", f"prompts/norm_{i}"),
            )
        ),
        *linear(f"{here}.mask_embed.conv3", "prompts/out", convolution(1)),
    ]


def decoder_rules(model: SAM) -> list[Rule]:
    """The rules of the mask decoder."""
    here = "mask_decoder"
    ours = "decoder/layers/block"
    theirs = f"{here}.transformer.layers.{{}}"
    entries = [
        Rule(f"{here}.iou_token.weight", ("decoder/iou_token",), ROWS),
        Rule(f"{here}.mask_tokens.weight", ("decoder/mask_tokens/embedding",), SAME),
    ]
    for name, their_name in _TOKENS.items():
        entries += projections(f"{theirs}.{their_name}", f"{ours}/tokens/{name}", _PROJECTIONS, model.cross)
    for i, name in enumerate(("attention", "cross", "mlp"), 1):
        entries += norm(f"{theirs}.layer_norm{i}", f"{ours}/tokens/norm_{name}")
    entries += linear(f"{theirs}.mlp.lin1", f"{ours}/tokens/mlp/up") + linear(
        f"{theirs}.mlp.lin2", f"{ours}/tokens/mlp/down"
    )
    image = f"{theirs}.cross_attn_image_to_token"
    entries += projections(image, f"{ours}/image/attention", _PROJECTIONS, model.cross)
    entries += norm(f"{theirs}.layer_norm4", f"{ours}/image/norm_attention")
    final = f"{here}.transformer.final_attn_token_to_image"
    entries += projections(final, "decoder/final/attention", _PROJECTIONS, model.cross)
    entries += norm(f"{here}.transformer.layer_norm_final_attn", "decoder/final/norm_attention")
    for i in (1, 2):
        upscale = f"{here}.upscale_conv{i}"
        entries.append(Rule(f"{upscale}.weight", (f"decoder/upscale_{i}/linear/kernel",), _UPSAMPLED))
        entries.append(Rule(f"{upscale}.bias", (f"decoder/upscale_{i}/bias",)))
    entries += norm(f"{here}.upscale_layer_norm", "decoder/norm_upscale")
    readers = {f"output_hypernetworks_mlps.{i}": f"mask_{i}" for i in range(model.masks + 1)}
    for theirs, reader in (readers | {"iou_prediction_head": "iou"}).items():
        for i, layer in enumerate(("proj_in", "layers.0", "proj_out")):
            entries += linear(f"{here}.{theirs}.{layer}", f"decoder/{reader}/layer_{i}")
    return entries
