"""DETR (Carion et al. 2020): `DetrForObjectDetection` on a residual network with constant batch norms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface.family import Family, Inputs, only_attention, select_inputs
from txjax.interop.huggingface.options import Options, labels
from txjax.interop.huggingface.rules import (
    SAME,
    STATISTICS,
    Flat,
    Names,
    Rule,
    TensorLayout,
    frozen_batch_norm,
    linear,
    norm,
    out_in,
)
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.shared.sequence_to_sequence import attentions, layers, size_entries, sizes
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.detr.detr import DETR as Model
from txjax.models.vision.detr.map_positions import LearnedMap, SineMap
from txjax.models.vision.res_net.hf_resnet import entries, is_residual, residual, residual_rules
from txjax.nn import FrozenBatchNorm, LayerNorm, ObjectBoxes, PositionedAttention, PositionedCrossAttention
from txjax.types import PyTree

_BACKBONE = "model.backbone.conv_encoder.model"
_POSITIONS = {"sine": SineMap, "learned": LearnedMap}
_PLACES = 50  # rows and columns of learned positions; config.json has no key for it
_COUNT = [3, 4, 6, 3]
_STAGES = 4
_TIMM = {"resnet50": _COUNT, "resnet101": [3, 4, 23, 3]}  # names of another library's networks: their depths
_CENTRES = (1, 0, 3, 2)  # column, row, width, height of a box there, of row, column, height, width here


class DETR(Family):
    model_type = "detr"
    architectures = ("DetrForObjectDetection",)
    txjax_model = "`DETR` on a `ResNet` with `FrozenBatchNorm()`"
    outputs = (
        "logits",
        "pred_boxes",
    )
    inputs = ("pixel_values", "pixel_mask")
    state = (STATISTICS,)

    def matches(self, model: Any) -> bool:
        usual = isinstance(model, Model) and isinstance(model.head, ObjectBoxes) and is_residual(model.backbone)
        return usual and isinstance(model.backbone.norm, FrozenBatchNorm)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        options.require(dilation=False, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
        kind = options.get("position_embedding_type", "sine")
        if kind not in _POSITIONS:
            raise options.refuse("position_embedding_type", " or ".join(_POSITIONS), kind)
        dropout = options.get("attention_dropout", 0.0)
        return Model(
            backbone=residual(_backbone(options), FrozenBatchNorm(), None),
            queries=options.size("num_queries", 100),
            width=options.size("d_model", 256),
            **sizes(options, layers=6, heads=8, hidden=2048, activation="relu"),
            map_positions=_POSITIONS[kind](),
            mixer=PositionedAttention(dropout=dropout),
            cross=PositionedCrossAttention(dropout=dropout),
            norm=LayerNorm(eps=1e-5),
            dropout=options.get("dropout", 0.1),
            head=ObjectBoxes(classes=tensors["class_labels_classifier.weight"].shape[0] - 1),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        if isinstance(model.map_positions, LearnedMap) and model.map_positions.most != _PLACES:
            raise UserError("config.model.map_positions.most", f"{_PLACES} in a file of DETR", model.map_positions.most)
        last = len(model.backbone.stages)
        backbone = entries(model.backbone, flat["backbone/downsample_0/conv_stem/kernel"])
        return {
            "architectures": ["DetrForObjectDetection"],
            "use_timm_backbone": False,
            "backbone_config": backbone | {"model_type": "resnet", "out_features": [f"stage{last}"]},
            "num_channels": backbone["num_channels"],
            "num_queries": model.queries,
            "d_model": model.width,
            **size_entries(model),
            "position_embedding_type": "sine" if isinstance(model.map_positions, SineMap) else "learned",
            "dropout": model.dropout,
            "attention_dropout": only_attention(model).dropout,
            **labels(model.head.classes),
        }

    def names(self, options: Options) -> Names:
        """With the names of another library's backbone, which the authors' files have."""
        renamed = {
            rf"{_BACKBONE}\.conv1\.": f"{_BACKBONE}.embedder.embedder.convolution.",
            rf"{_BACKBONE}\.bn1\.": f"{_BACKBONE}.embedder.embedder.normalization.",
        }
        for stage in range(_STAGES):
            theirs = rf"{_BACKBONE}\.layer{stage + 1}\.(\d+)"
            ours = rf"{_BACKBONE}.encoder.stages.{stage}.layers.\1"
            for number in range(3):
                renamed[rf"{theirs}\.conv{number + 1}\."] = f"{ours}.layer.{number}.convolution."
                renamed[rf"{theirs}\.bn{number + 1}\."] = f"{ours}.layer.{number}.normalization."
            renamed[rf"{theirs}\.downsample\.0\."] = f"{ours}.shortcut.convolution."
            renamed[rf"{theirs}\.downsample\.1\."] = f"{ours}.shortcut.normalization."
        return Names(buffers=r"\.num_batches_tracked$", renamed=renamed)

    def rules(self, model: Any) -> list[Rule]:
        entries = residual_rules(model.backbone, _BACKBONE, "backbone/", frozen_batch_norm)
        entries += linear("model.input_projection", "project", _ones())
        entries.append(Rule("model.query_position_embeddings.weight", ("queries/embedding",), SAME))
        if isinstance(model.map_positions, LearnedMap):
            for name in ("row", "column"):
                theirs = f"model.position_embedding.{name}_embeddings.weight"
                entries.append(Rule(theirs, (f"map_positions/{name}s/embedding",), SAME))
        entries += layers(attentions(model))
        entries += norm("model.decoder.layernorm", "decoder/norm_final")
        entries += linear("class_labels_classifier", "head")
        for number in range(3):
            last = number == 2
            rules = linear(f"bbox_predictor.layers.{number}", f"box/layer_{number}", _swapped() if last else None)
            entries += [rules[0], rules[1]._replace(form=_SWAPPED) if last else rules[1]]
        return entries

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        channels = _backbone(options).size("num_channels", 3)
        return {"image": jax.ShapeDtypeStruct((1, 64, 64, channels), jnp.float32)}

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """`logits` and `pred_boxes` of the last layer. A `pixel_mask` has ones above and to the left of all zeros."""
        image = patches.pixels(select_inputs(inputs, {"pixel_values": "image"})["image"])
        extent = None
        if "pixel_mask" in inputs:
            mask = inputs["pixel_mask"] > 0
            extent = jnp.stack([mask.any(axis).sum(1) for axis in (2, 1)], -1).astype(jnp.int32)
        output = model.apply(variables, image, extent)
        return {"logits": output.logits[-1], "pred_boxes": output.boxes[-1][..., np.array(_CENTRES)]}


def _backbone(options: Options) -> Options:
    """The entries of config.json of the backbone."""
    inside = options.values.get("backbone_config")
    if inside is None:
        name = options.get("backbone", "resnet50")
        if name not in _TIMM:
            raise options.refuse("backbone", " or ".join(_TIMM), name)
        return Options({"depths": _TIMM[name], "num_channels": options.size("num_channels", 3)})
    if not isinstance(inside, dict) or inside.get("model_type") != "resnet":
        raise options.refuse("backbone_config", "one with the model_type 'resnet'", inside)
    last = f"stage{len(inside.get('depths', _COUNT))}"
    if inside.get("out_features", [last]) != [last]:
        raise options.refuse("backbone_config.out_features", f"{[last]}", inside["out_features"])
    return options.part("backbone_config")


def _ones() -> TensorLayout:
    """The kernel [in out] of a convolution of 1 x 1: [out in 1 1] there."""
    return TensorLayout(lambda x: x.T[:, :, None, None], lambda x, shape: x[:, :, 0, 0].T.reshape(shape))


_SWAPPED = TensorLayout(lambda x: x[np.array(_CENTRES)], lambda x, shape: x[np.array(_CENTRES)].reshape(shape))


def _swapped() -> TensorLayout:
    """A kernel [in 4] to the numbers of a box: [4 in] there, in their order."""
    flat = out_in()
    return TensorLayout(
        lambda x: _SWAPPED.theirs(flat.theirs(x)), lambda x, shape: flat.ours(_SWAPPED.theirs(x), shape)
    )
