"""CLIP (Radford et al. 2021): `CLIPModel`, and its towers with and without their projections."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from txjax.interop.huggingface.family import Inputs, apply_with_intermediates, select_inputs
from txjax.interop.huggingface.options import Options
from txjax.interop.huggingface.rules import Flat, Names, Rule, TensorLayout, convolution, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.multimodal.two_towers.hf_towers import ImageTower, Pair, TextTower, Tower
from txjax.models.multimodal.two_towers.towers import CLIPImageTower
from txjax.models.multimodal.two_towers.two_towers import TwoTowers
from txjax.models.text.decoder.decoder import Decoder
from txjax.nn import FirstToken, Head, LastToken, Learned, NormedPool, Pool, Pooled, Projected
from txjax.types import PyTree

_LARGEST = 2  # the `eos_token_id` of old files, which stands for the largest id of a text
_LAYERS: dict[str, Any] = {
    "layer_norm_eps": 1e-5,
    "hidden_act": "quick_gelu",
    "attention_dropout": 0.0,
    "num_hidden_layers": 12,
}


class _CLIPTower(Tower):
    """A tower of two classes. The first one has a projection, without bias, of what the pool gives.

    Attributes:
      pool: from the tokens to one vector.
      projection: the module of the projection.
      embeds: the name of the projected features among the outputs.
      normed: the module that gives the output `last_hidden_state`.
    """

    pool: Pool
    projection: str
    embeds: str
    normed: str

    def head(self, options: Options) -> Head:
        size = options.size("projection_dim", 512)
        return Projected(size, self.pool) if self.projects(options) else Pooled(self.pool)

    def projects(self, options: Options) -> bool:
        """Whether the class in the options has the projection."""
        return options.values["architectures"] == [self.architectures[0]]

    def config(self, model: Any, flat: Flat) -> dict[str, Any]:
        projected = isinstance(model.head, Projected)
        size = {"projection_dim": model.head.size} if projected else {}
        return {"architectures": [self.architectures[0 if projected else 1]], **self.entries(model, flat), **size}

    def names(self, options: Options) -> Names:
        names = super().names(options)._replace(heads=(self.projection,))
        return names._replace(renamed={}) if self.projects(options) else names

    def rules(self, model: Any) -> list[Rule]:
        return self.tensors(model, self.prefix if isinstance(model.head, Projected) else "")

    def tensors(self, model: Any, prefix: str) -> list[Rule]:
        projection = linear(self.projection, "head", bias=False) if isinstance(model.head, Projected) else []
        return [*super().tensors(model, prefix), *projection]

    def forward(self, model: Any, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        output, inside = apply_with_intermediates(model, variables, (self.normed,), **self.arguments(inputs))
        name = self.embeds if isinstance(model.head, Projected) else "pooler_output"
        return {"last_hidden_state": inside[self.normed], name: output}


class CLIPVision(_CLIPTower, ImageTower):
    model_type = "clip_vision_model"
    architectures = ("CLIPVisionModelWithProjection", "CLIPVisionModel")
    txjax_model = "`CLIPImageTower`"
    outputs = ("last_hidden_state", "pooler_output", "image_embeds")
    kind = CLIPImageTower
    tokens = 1
    pool = NormedPool(FirstToken())
    projection = "visual_projection"
    embeds = "image_embeds"
    normed = "layers"
    defaults = _LAYERS | {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 32,
    }

    def matches(self, model: Any) -> bool:
        return isinstance(model, CLIPImageTower)

    def tensors(self, model: Any, prefix: str) -> list[Rule]:
        patches = linear(f"{prefix}embeddings.patch_embedding", "patch_embed", convolution(model.patch), bias=False)
        return [
            Rule(f"{prefix}embeddings.class_embedding", ("pool/token",)),
            *patches,
            *norm(f"{prefix}pre_layrnorm", "norm_stem"),  # so in their files
            *super().tensors(model, prefix),
            *norm(f"{prefix}post_layernorm", "norm_final"),
        ]


class CLIPText(_CLIPTower, TextTower):
    model_type = "clip_text_model"
    architectures = ("CLIPTextModelWithProjection", "CLIPTextModel")
    txjax_model = "`Decoder` with `head=Projected(n, LastToken())` or `Pooled(LastToken())`"
    inputs = ("input_ids", "attention_mask", "eos_token_id")
    outputs = ("last_hidden_state", "pooler_output", "text_embeds")
    unless_given = {"eos_token_id": _LARGEST}
    kind = Decoder
    pool = LastToken()
    projection = "text_projection"
    embeds = "text_embeds"
    normed = "norm_final"
    defaults = _LAYERS | {
        "vocab_size": 49408,
        "hidden_size": 512,
        "intermediate_size": 2048,
        "num_attention_heads": 8,
        "max_position_embeddings": 77,
    }

    def matches(self, model: Any) -> bool:
        if not isinstance(model, Decoder):
            return False
        return isinstance(model.head, Pooled | Projected) and isinstance(model.positions, Learned)

    def arguments(self, inputs: Inputs) -> dict[str, jax.Array]:
        """What follows a text's first end token is padding. The setting `eos_token_id` is the end token's id."""
        arguments = select_inputs(inputs, {"input_ids": "tokens", "attention_mask": "segments"})
        inside = until_end(arguments["tokens"], inputs.get("eos_token_id", _LARGEST))
        return arguments | {"segments": inside * arguments.get("segments", 1)}


def until_end(tokens: Int[Array, "B L"], end: int) -> Int[Array, "B L"]:
    """1 until a text's first end token, then 0.

    Args:
      end: its id; 2 stands for the largest id of the text, which the end token has in the published vocabulary.
    """
    last = jnp.argmax(tokens if end == _LARGEST else tokens == end, axis=1)
    return (jnp.arange(tokens.shape[1])[None] <= last[:, None]).astype(jnp.int32)


class CLIP(Pair):
    model_type = "clip"
    architectures = ("CLIPModel",)
    txjax_model = "`TwoTowers` of `CLIPImageTower` and `Decoder`, `clip(...)`"
    not_written = ("scale", "largest_scale")  # the first value, and a bound of training
    unless_given = {"text_config": {"eos_token_id": _LARGEST}}
    vision = CLIPVision()
    text = CLIPText()
    scalar = TensorLayout(lambda x: x.reshape(()))

    def matches(self, model: Any) -> bool:
        return super().matches(model) and all(isinstance(tower.head, Projected) for tower in (model.vision, model.text))

    def side(self, options: Options, name: str) -> Options:
        """As in the reference, `text_config_dict` of old files takes the place of `text_config`."""
        old = f"{name}_config_dict"
        if options.values.get(old) is None:
            return super().side(options, name)
        return options.part(old)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> TwoTowers:
        size = options.size("projection_dim", 512)
        return TwoTowers(
            vision=self.vision.tower(self.side(options, "vision"), Projected(size, self.vision.pool)),
            text=self.text.tower(self.side(options, "text"), Projected(size, self.text.pool)),
            scale=math.exp(options.get("logit_scale_init_value", 2.6592)),
        )

    def config(self, model: TwoTowers, flat: Flat) -> dict[str, Any]:
        head = model.vision.head  # type: ignore[attr-defined]
        numbers = {"projection_dim": head.size, "logit_scale_init_value": round(math.log(model.scale), 6)}
        return super().config(model, flat) | numbers | {"vision_config_dict": None, "text_config_dict": None}
