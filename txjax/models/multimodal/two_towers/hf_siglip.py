"""SigLIP (Zhai et al. 2023), and SigLIP 2 for images of one size: `SiglipModel`, and its towers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from txjax.interop.huggingface.family import Inputs, apply_with_intermediates, select_inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import TOKEN, VECTOR, Flat, Rule, convolution, in_out, linear, norm, out_in
from txjax.interop.huggingface.weights import Tensor
from txjax.models.multimodal.two_towers.hf_towers import ImageTower, Pair, TextTower, Tower
from txjax.models.multimodal.two_towers.probe_pool import ProbePool
from txjax.models.multimodal.two_towers.towers import FixedLengthText, SigLIPImageTower
from txjax.models.multimodal.two_towers.two_towers import TwoTowers
from txjax.nn import Head, LastToken, Learned, Pooled, Projected
from txjax.nn.attention.mixer import PROJECTIONS
from txjax.types import PyTree

_LAYERS: dict[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "layer_norm_eps": 1e-6,
    "hidden_act": "gelu_pytorch_tanh",
    "attention_dropout": 0.0,
}


class _SiglipTower(Tower):
    """A tower whose head is one of its modules."""

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        output, inside = apply_with_intermediates(model, variables, ("norm_final",), **self.arguments(inputs))
        pooled = {} if model.head is None else {"pooler_output": output}
        return {"last_hidden_state": inside["norm_final"], **pooled}


class SiglipVision(_SiglipTower, ImageTower):
    model_type = "siglip_vision_model"
    architectures = ("SiglipVisionModel",)
    txjax_model = "`SigLIPImageTower` with `head=Pooled(ProbePool())` or None"
    outputs = ("last_hidden_state", "pooler_output")
    kind = SigLIPImageTower
    defaults = _LAYERS | {"image_size": 224, "patch_size": 16}

    def matches(self, model: Any) -> bool:
        return isinstance(model, SigLIPImageTower)

    def head(self, options: Options) -> Head | None:
        return Pooled(ProbePool()) if options.get("vision_use_head", True) else None

    def config(self, model: SigLIPImageTower, flat: Flat) -> dict[str, Any]:
        return {"architectures": [*self.architectures], **self.entries(model, flat)}

    def entries(self, model: Any, flat: Flat, at: str = "") -> dict[str, Any]:
        return super().entries(model, flat, at) | {"vision_use_head": model.head is not None}

    def tensors(self, model: Any, prefix: str) -> list[Rule]:
        return [
            *linear(f"{prefix}embeddings.patch_embedding", "patch_embed", convolution(model.patch)),
            *super().tensors(model, prefix),
            *norm(f"{prefix}post_layernorm", "norm_final"),
            *([] if model.head is None else probe_rules(f"{prefix}head", "probe")),
        ]


def probe_rules(theirs: str, ours: str) -> list[Rule]:
    """The rules of a `ProbePool`, whose queries, keys and values are one tensor there, [3D D]."""
    inputs = [f"{ours}/attention/{name}" for name in PROJECTIONS[:3]]
    kernels = tuple(f"{name}/kernel" for name in inputs)
    return [
        Rule(f"{theirs}.probe", (f"{ours}/token",), TOKEN),
        Rule(f"{theirs}.attention.in_proj_weight", kernels, in_out(), out_in()),
        Rule(f"{theirs}.attention.in_proj_bias", tuple(f"{name}/bias" for name in inputs)),
        *linear(f"{theirs}.attention.out_proj", f"{ours}/attention/out", out_in(2)),
        *norm(f"{theirs}.layernorm", f"{ours}/norm"),
        *linear(f"{theirs}.mlp.fc1", f"{ours}/mlp/up"),
        *linear(f"{theirs}.mlp.fc2", f"{ours}/mlp/down"),
    ]


class SiglipText(_SiglipTower, TextTower):
    model_type = "siglip_text_model"
    architectures = ("SiglipTextModel",)
    txjax_model = "`FixedLengthText` with `head=Projected(n, LastToken(), use_bias=True)`"
    inputs = ("input_ids",)
    outputs = ("last_hidden_state", "pooler_output")
    kind = FixedLengthText
    defaults = _LAYERS | {"vocab_size": 32000, "max_position_embeddings": 64}

    def matches(self, model: Any) -> bool:
        if not isinstance(model, FixedLengthText):
            return False
        return isinstance(model.head, Projected) and isinstance(model.positions, Learned)

    def head(self, options: Options) -> Head:
        width = options.size("hidden_size", _LAYERS["hidden_size"])
        return Projected(options.size("projection_size", width), LastToken(), use_bias=True)

    def config(self, model: FixedLengthText, flat: Flat) -> dict[str, Any]:
        return {"architectures": [*self.architectures], **self.entries(model, flat)}

    def entries(self, model: Any, flat: Flat, at: str = "") -> dict[str, Any]:
        return super().entries(model, flat, at) | {"projection_size": model.head.size}

    def tensors(self, model: Any, prefix: str) -> list[Rule]:
        return [*super().tensors(model, prefix), *linear(f"{prefix}head", "head")]

    def arguments(self, inputs: Inputs) -> dict[str, jax.Array]:
        return select_inputs(inputs, {"input_ids": "tokens"})


class Siglip(Pair):
    model_type = "siglip"
    architectures = ("SiglipModel",)
    txjax_model = "`TwoTowers` of `SigLIPImageTower` and `FixedLengthText`, `siglip(...)`, `siglip2(...)`"
    not_written = ("scale", "bias")  # the first values
    vision = SiglipVision()
    text = SiglipText()
    scalar = VECTOR

    def matches(self, model: Any) -> bool:
        return super().matches(model) and model.bias is not None and model.vision.head is not None

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> TwoTowers:
        sides = {name: self.side(options, name) for name in self.towers}
        sides["vision"].require(vision_use_head=True)
        towers = {name: tower.tower(sides[name], tower.head(sides[name])) for name, tower in self.towers.items()}
        return TwoTowers(**towers, scale=10.0, bias=-10.0, largest_scale=None)
