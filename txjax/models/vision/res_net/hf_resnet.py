"""Residual networks (He et al. 2016): `ResNetForImageClassification` and `ResNetModel`, and as part of other models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from txjax.interop.huggingface.family import Inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import STATISTICS, Flat, Names, Rule, batch_norm, kernel, linear
from txjax.interop.huggingface.shared.stages import Stages, numbers, stages
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.res_net.res_net import ResidualConvs, ResidualDownsampling, ResidualStem
from txjax.models.vision.res_net.res_net import ResNet as Model
from txjax.nn import BatchNorm, Head, MeanTokens, Norm
from txjax.types import PyTree

_WIDTHS = [256, 512, 1024, 2048]
_DEPTHS = [3, 4, 6, 3]
_NORMS = ("norm_1", "norm_2", "norm_3")


class ResNet(Stages):
    model_type = "resnet"
    architectures = ("ResNetForImageClassification", "ResNetModel")
    txjax_model = "`ResNet`"
    outputs = (
        "logits",
        "pooler_output",
    )
    linear = "classifier.1"
    state = (STATISTICS,)
    not_written = ("norm.group", "norm.momentum")

    def matches(self, model: Any) -> bool:
        return is_residual(model) and isinstance(model.norm, BatchNorm)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        return residual(options, BatchNorm(), self.head(options, tensors, MeanTokens()))

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        return self.architecture_entries(model) | entries(model, flat["downsample_0/conv_stem/kernel"])

    def names(self, options: Options) -> Names:
        return Names("resnet.", heads=(self.linear,))

    def constants(self, model: Any) -> dict[str, np.ndarray]:
        """The numbers of batches seen, which averages with a momentum don't depend on."""
        return {
            rule.name(layer).removesuffix("weight") + "num_batches_tracked": np.zeros((), np.float32)
            for rule in residual_rules(model, "resnet", "", batch_norm)
            if ".normalization.weight" in rule.hf_name
            for layer in (range(_others(model, rule)) if "{}" in rule.hf_name else (None,))
        }

    def rules(self, model: Any) -> list[Rule]:
        return [*residual_rules(model, "resnet", "", batch_norm), *self.classifier(model)]

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """The same, but `pooler_output` is [B D 1 1]."""
        outputs = super().forward(model, variables, inputs)
        return {name: x if name == "logits" else x[:, :, None, None] for name, x in outputs.items()}


def is_residual(model: Any) -> bool:
    """Whether a model is a residual network as Hugging Face has it."""
    ends = isinstance(model, Model) and isinstance(model.stem, ResidualStem)
    return ends and isinstance(model.downsample, ResidualDownsampling) and isinstance(model.mixer, ResidualConvs)


def residual(options: Options, norm: Norm, head: Head | None) -> Model:
    """The network that a config.json describes."""
    options.require(layer_type="bottleneck", hidden_act="relu", downsample_in_first_stage=False)
    options.require(downsample_in_bottleneck=False)
    widths = numbers(options, "hidden_sizes", _WIDTHS)
    channels = options.size("embedding_size", 64)
    if widths[0] == channels:
        raise options.refuse("embedding_size", "another number than the first of hidden_sizes", channels)
    return Model(
        stages=stages(options.with_values({"depths": _DEPTHS} | options.values), widths),
        stem=ResidualStem(channels=channels),
        norm=norm,
        head=head,
    )


def entries(model: Model, stem: np.ndarray) -> dict[str, Any]:
    """The entries of config.json for a network whose stem has this kernel."""
    assert isinstance(model.stem, ResidualStem)
    return {
        "embedding_size": model.stem.channels,
        "hidden_sizes": [stage.width for stage in model.stages],
        "depths": [stage.depth for stage in model.stages],
        "num_channels": stem.shape[2],
        "layer_type": "bottleneck",
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
    }


def residual_rules(model: Model, theirs: str, ours: str, norm: Callable[[str, str], list[Rule]]) -> list[Rule]:
    """The rules of a network, the names of whose parameters begin with these prefixes.

    Args:
      norm: the rules of a norm.
    """

    def both(their_name: str, conv: str, its_norm: str) -> list[Rule]:
        convolution = linear(f"{theirs}.{their_name}.convolution", f"{ours}{conv}", kernel(), bias=False)
        return [*convolution, *norm(f"{theirs}.{their_name}.normalization", f"{ours}{its_norm}")]

    def branch(layer: str, inside: str) -> list[Rule]:
        parts = (both(f"{layer}.layer.{i}", f"{inside}/conv_{i + 1}", f"{inside}/norm_{i + 1}") for i in range(3))
        return [rule for part in parts for rule in part]

    entries = both("embedder.embedder", "downsample_0/conv_stem", "downsample_0/norm_stem")
    for i, stage in enumerate(model.stages):
        first = f"encoder.stages.{i}.layers.0"
        inside = f"downsample_{i}"
        entries += both(f"{first}.shortcut", f"{inside}/conv_shortcut", f"{inside}/norm_shortcut")
        entries += branch(first, inside)
        if stage.depth > 1:
            others = branch(f"encoder.stages.{i}.layers.{{}}", f"stages_{i}/layers/block/mixer")
            entries += [rule._replace(first=1) for rule in others]
    return entries


def _others(model: Model, rule: Rule) -> int:
    """The number of layers that a rule of stacked arrays has."""
    number = int(rule.hf_name.split(".stages.")[1].split(".")[0])
    return model.stages[number].depth - 1
