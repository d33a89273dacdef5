"""EfficientNet (Tan and Le 2019): `EfficientNetForImageClassification` and `EfficientNetModel`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import STATISTICS, Flat, Names, Rule, batch_norm, convolution, kernel, linear
from txjax.interop.huggingface.shared.stages import Stages, numbers
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.efficient_net.efficient_net import EfficientNet as Model
from txjax.models.vision.efficient_net.efficient_net import InvertedStage, scaled_width
from txjax.models.vision.efficient_net.inverted_residuals import InvertedResidual, InvertedStem, PlainResidual
from txjax.nn import BatchNorm, MeanTokens

_STEM = 32  # the channels of the stem, before they are scaled
_TOP = 1280  # those before the head
# One number a stage each, with the defaults of the reference.
_LISTS = {
    "in_channels": [32, 16, 24, 40, 80, 112, 192],
    "out_channels": [16, 24, 40, 80, 112, 192, 320],
    "kernel_sizes": [3, 3, 5, 3, 5, 5, 3],
    "num_block_repeats": [1, 2, 2, 3, 3, 4, 1],
    "expand_ratios": [1, 6, 6, 6, 6, 6, 6],
    "strides": [1, 2, 2, 2, 1, 2, 1],
}
# Theirs and our convolutions and norms of a layer.
_PARTS = {
    "expansion": ("expand_conv", "expand_bn", "expand"),
    "depthwise_conv": ("depthwise_conv", "depthwise_norm", "depthwise"),
    "projection": ("project_conv", "project_bn", "shrink"),
}


class EfficientNet(Stages):
    model_type = "efficientnet"
    architectures = ("EfficientNetForImageClassification", "EfficientNetModel")
    txjax_model = "`EfficientNet`"
    outputs = (
        "logits",
        "pooler_output",
    )
    state = (STATISTICS,)
    not_written = ("norm.group",)

    def matches(self, model: Any) -> bool:
        return isinstance(model, Model) and isinstance(model.stem, InvertedStem) and isinstance(model.norm, BatchNorm)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        options.require(pooling_type="mean")
        if (activation := options.activation("hidden_act", "swish")) != "silu":
            raise options.refuse("hidden_act", "'swish', as squeezed means have it", activation)
        factor = options.get("width_coefficient", 2.0)
        divisor = options.size("depth_divisor", 8)
        lists = {key: numbers(options, key, default) for key, default in _LISTS.items()}
        for key in ("in_channels", "out_channels"):
            lists[key] = [scaled_width(channels, factor, divisor) for channels in lists[key]]
        for key, values in lists.items():
            if len(values) != len(lists["out_channels"]):
                raise options.refuse(key, f"{len(lists['out_channels'])} numbers, one a stage", values)
        stem = scaled_width(_STEM, factor, divisor)
        features = scaled_width(_TOP, factor, divisor)
        if lists["in_channels"] != (chained := [stem, *lists["out_channels"][:-1]]):
            expected = f"{chained} when scaled, what is before each stage"
            raise options.refuse("in_channels", expected, lists["in_channels"])
        if any(stride > 2 for stride in lists["strides"]):
            raise options.refuse("strides", "1 or 2", lists["strides"])
        options.require(hidden_dim=features)
        depth = options.get("depth_coefficient", 3.1)
        depths = [math.ceil(depth * repeats) for repeats in lists["num_block_repeats"]]
        names = ("out_channels", "kernel_sizes", "expand_ratios", "strides")
        network = Model(
            stages=tuple(
                InvertedStage(width, layers, side=side, ratio=ratio, stride=stride)
                for layers, width, side, ratio, stride in zip(depths, *(lists[name] for name in names), strict=True)
            ),
            stem=InvertedStem(channels=stem),
            features=features,
            resolution=_resolution(options),
            head_dropout=options.get("dropout_rate", 0.5),
            norm=BatchNorm(
                momentum=options.get("batch_norm_momentum", 0.99),
                eps=options.get("batch_norm_eps", 1e-3),
            ),
            mixer=InvertedResidual(squeeze_ratio=options.get("squeeze_expansion_ratio", 0.25)),
            block=PlainResidual(drop_path=options.get("drop_connect_rate", 0.2)),
            head=self.head(options, tensors, MeanTokens()),
        )
        padded = options.values.get("depthwise_padding") or []
        strided = _strided(network)
        if {block for block in padded if block in strided} != set(_odd(network)):
            expected = f"{_odd(network)} among the layers {strided} with strides, for this image_size"
            raise options.refuse("depthwise_padding", expected, padded)
        return network

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        stem = flat["downsample_0/conv_stem/kernel"]
        stages = model.stages
        factor = model.features / _TOP
        widths = [model.stem.channels, *(stage.width for stage in stages)]
        divisor = 8 if all(width % 8 == 0 for width in (*widths, model.features)) else 1
        channels = [_unscaled(width, factor, divisor) for width in widths[1:]]
        resolution = {} if model.resolution is None else {"image_size": model.resolution}
        return (
            self.architecture_entries(model)
            | resolution
            | {
                "num_channels": stem.shape[2],
                "width_coefficient": factor,
                "depth_coefficient": 1.0,
                "depth_divisor": divisor,
                "in_channels": [_STEM, *channels[:-1]],
                "out_channels": channels,
                "kernel_sizes": [stage.side for stage in stages],
                "num_block_repeats": [stage.depth for stage in stages],
                "expand_ratios": [stage.ratio for stage in stages],
                "strides": [stage.stride for stage in stages],
                "depthwise_padding": _odd(model),
                "squeeze_expansion_ratio": model.mixer.squeeze_ratio,
                "hidden_act": "swish",
                "hidden_dim": model.features,
                "pooling_type": "mean",
                "batch_norm_eps": model.norm.eps,
                "batch_norm_momentum": model.norm.momentum,
                "dropout_rate": model.head_dropout,
                "drop_connect_rate": model.block.drop_path,
            }
        )

    def names(self, options: Options) -> Names:
        return Names("efficientnet.", heads=(self.linear,))

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """The numbers of batches seen, which averages with a momentum don't depend on."""
        names = []
        for rule in self.rules(model):
            if rule.hf_name.endswith("running_mean"):
                layers = range(_layers_of(model, rule)) if "{}" in rule.hf_name else (None,)
                names += [rule.name(layer).replace("running_mean", "num_batches_tracked") for layer in layers]
        return {name: np.zeros((), np.float32) for name in names}

    def rules(self, model: Any) -> list[Rule]:
        theirs = "efficientnet.encoder"
        rules = _normed("efficientnet.embeddings", "convolution", "batchnorm", "downsample_0", "conv_stem", "norm_stem")
        for i, (stage, first) in enumerate(zip(model.stages, _firsts(model), strict=True)):
            rules += _layer(f"{theirs}.blocks.{first}", f"downsample_{i}", stage)
            if stage.depth > 1:
                others = _layer(f"{theirs}.blocks.{{}}", f"stages_{i}/layers/block/mixer", stage)
                rules += [rule._replace(first=first + 1) for rule in others]
        return [*rules, *_normed(theirs, "top_conv", "top_bn", "top", "conv", "norm"), *self.classifier(model)]


def _normed(theirs: str, conv: str, norm: str, ours: str, our_conv: str, our_norm: str) -> list[Rule]:
    """The rules of a convolution and its norm."""
    form = convolution(1) if our_conv in ("expand", "shrink") else kernel()
    convolved = linear(f"{theirs}.{conv}", f"{ours}/{our_conv}", form, bias=False)
    return convolved + batch_norm(f"{theirs}.{norm}", f"{ours}/{our_norm}")


def _layer(theirs: str, ours: str, stage: InvertedStage) -> list[Rule]:
    """The rules of a layer of a stage."""
    rules: list[Rule] = []
    for part, (conv, norm, name) in _PARTS.items():
        if name != "expand" or stage.ratio > 1:
            rules += _normed(f"{theirs}.{part}", conv, norm, ours, name, f"norm_{name}")
    for name, our_name in (("reduce", "down"), ("expand", "up")):
        rules += linear(f"{theirs}.squeeze_excite.{name}", f"{ours}/excite/{our_name}", convolution(1))
    return rules


def _firsts(model: Model) -> list[int]:
    """The number of the first layer of each stage."""
    return list(itertools.accumulate((stage.depth for stage in model.stages[:-1]), initial=0))


def _layers_of(model: Model, rule: Rule) -> int:
    """The number of layers that a rule of stacked arrays has."""
    stage = _firsts(model).index(rule.first - 1)
    return model.stages[stage].depth - 1


def _strided(model: Model) -> list[int]:
    """The numbers of the layers with strides."""
    return [first for first, stage in zip(_firsts(model), model.stages, strict=True) if stage.stride > 1]


def _odd(model: Model) -> list[int]:
    """The numbers of the layers with strides before which images of the model's resolution have odd sides."""
    if model.resolution is None:
        return []
    rows = -(-model.resolution // 2)
    odd = []
    for first, stage in zip(_firsts(model), model.stages, strict=True):
        odd += [first] * (stage.stride > 1 and rows % 2)
        rows = -(-rows // stage.stride)
    return odd


def _resolution(options: Options) -> int:
    """Rows and columns of the images that the padding is for."""
    rows, columns = options.sides("image_size", 600)
    if rows != columns or rows % 2:
        raise options.refuse("image_size", "an even number, as the padding of the stem is for", [rows, columns])
    return rows


def _unscaled(width: int, factor: float, divisor: int) -> int:
    """Channels that this factor makes this width. Raises UserError if there are none."""
    middle = round(width / factor)
    for channels in sorted(range(max(1, middle - divisor), middle + divisor + 1), key=lambda n: abs(n - middle)):
        if scaled_width(channels, factor, divisor) == width:
            return channels
    hint = f"Hugging Face multiplies all widths by features / {_TOP} = {factor:g}"
    raise UserError("config.model.stages.width", f"a multiple of {divisor} that a whole number gives", width, hint=hint)
