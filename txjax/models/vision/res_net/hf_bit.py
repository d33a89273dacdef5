"""BiT's residual networks (Kolesnikov et al. 2020): `BitForImageClassification` and `BitModel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from txjax.errors import UserError
from txjax.interop.huggingface.family import Inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Names, Rule, kernel, linear, norm
from txjax.interop.huggingface.shared.stages import Stages, numbers, stages
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.res_net.bit import BiT as Model
from txjax.models.vision.res_net.bit import BottleneckConvs, BottleneckDownsampling, BottleneckStem
from txjax.nn import GroupNormRelu, MeanTokens, PreActivation
from txjax.types import PyTree

_EPS = 1e-8  # of standardised kernels
_MULTIPLE = 32  # a quarter of a width is rounded to a multiple of 8


class BiT(Stages):
    model_type = "bit"
    architectures = ("BitForImageClassification", "BitModel")
    txjax_model = "`BiT` with `mixer=BottleneckConvs(eps=1e-8)`"
    outputs = (
        "logits",
        "pooler_output",
    )
    linear = "classifier.1"

    def matches(self, model: Any) -> bool:
        ends = isinstance(model, Model) and isinstance(model.stem, BottleneckStem)
        return ends and isinstance(model.downsample, BottleneckDownsampling)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Model:
        same: dict[str, Any] = {"layer_type": "preactivation", "hidden_act": "relu", "width_factor": 1}
        options.require(**same, global_padding=None, embedding_dynamic_padding=False)
        widths = numbers(options, "hidden_sizes", [256, 512, 1024, 2048])
        if any(width % _MULTIPLE for width in widths):
            raise options.refuse("hidden_sizes", f"multiples of {_MULTIPLE}", widths)
        before = 2 ** len(widths)  # the stride of all stages but the last
        most = options.size("output_stride", 32)
        if len(widths) > 1 and before >= most:
            raise options.refuse("output_stride", f"more than {before}", most)
        return Model(
            stages=stages(options, widths),
            stem=BottleneckStem(channels=options.size("embedding_size", 64)),
            norm=GroupNormRelu(groups=options.size("num_groups", 32)),
            mixer=BottleneckConvs(eps=_EPS),
            block=PreActivation(drop_path=options.get("drop_path_rate", 0.0)),
            head=self.head(options, tensors, MeanTokens()),
        )

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        widths = [stage.width for stage in model.stages]
        if any(width % _MULTIPLE for width in widths):
            raise UserError("config.model.stages.width", f"multiples of {_MULTIPLE} in Hugging Face's bit", widths)
        return self.architecture_entries(model) | {
            "embedding_size": model.stem.channels,
            "hidden_sizes": widths,
            "depths": [stage.depth for stage in model.stages],
            "num_groups": model.norm.groups,
            "num_channels": flat["downsample_0/conv_stem/kernel"].shape[2],
            "drop_path_rate": model.block.drop_path,
            "output_stride": max(32, 2 ** (len(widths) + 1)),
            "layer_type": "preactivation",
            "hidden_act": "relu",
            "global_padding": None,
        }

    def names(self, options: Options) -> Names:
        return Names("bit.", heads=(self.linear,))

    def rules(self, model: Any) -> list[Rule]:
        entries = linear("bit.embedder.convolution", "downsample_0/conv_stem", kernel(), bias=False)
        for i, stage in enumerate(model.stages):
            first = f"bit.encoder.stages.{i}.layers.0"
            ours = f"downsample_{i}"
            entries += linear(f"{first}.downsample.conv", f"{ours}/conv_shortcut", kernel(), bias=False)
            entries += [*norm(f"{first}.norm1", f"{ours}/norm"), *_branch(first, ours)]
            if stage.depth > 1:
                theirs = f"bit.encoder.stages.{i}.layers.{{}}"
                ours = f"stages_{i}/layers/block"
                others = [*norm(f"{theirs}.norm1", f"{ours}/norm_mixer"), *_branch(theirs, f"{ours}/mixer")]
                entries += [rule._replace(first=1) for rule in others]
        return [*entries, *norm("bit.norm", "norm_final"), *self.classifier(model)]

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """The same, but `pooler_output` is [B D 1 1]."""
        outputs = super().forward(model, variables, inputs)
        return {name: x if name == "logits" else x[:, :, None, None] for name, x in outputs.items()}


def _branch(theirs: str, ours: str) -> list[Rule]:
    """The rules of a unit's branch."""
    convolutions = (linear(f"{theirs}.conv{i}", f"{ours}/conv_{i}", kernel(), bias=False) for i in (1, 2, 3))
    norms = (norm(f"{theirs}.norm{i}", f"{ours}/norm_{i}") for i in (2, 3))
    return [rule for part in (*convolutions, *norms) for rule in part]
