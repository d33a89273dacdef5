"""LLaVA (Liu et al. 2023a, b): `LlavaForConditionalGeneration` of CLIP's tower of images and a Llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.interop.huggingface.family import Family, Inputs, select_inputs
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import Flat, Names, Rule, linear
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.weights import Tensor
from txjax.models.multimodal.llava.llava import LLaVA
from txjax.models.multimodal.llava.projectors import MLPProjector
from txjax.models.multimodal.two_towers.hf_clip import CLIPVision
from txjax.models.multimodal.two_towers.towers import CLIPImageTower
from txjax.models.text.decoder.hf_llama import Llama
from txjax.nn import Rotary, Stack, Tied
from txjax.types import PyTree

_INPUTS = {
    "input_ids": "tokens",
    "attention_mask": "segments",
    "position_ids": "positions",
    "pixel_values": "images",
}
_TEXT = "language_model."
_VISION = "vision_tower."
_PROJECTOR = "multi_modal_projector."
# Names of the hub's files, and of the modules in memory, which some versions wrote.
_RENAMED = {
    r"model\.language_model\.": f"{_TEXT}model.",
    r"lm_head\.": f"{_TEXT}lm_head.",
    r"model\.vision_tower\.": _VISION,
    r"model\.multi_modal_projector\.": _PROJECTOR,
    r"vision_tower\.vision_model\.": _VISION,
}
_BUFFERS = r"embeddings\.position_ids$|rotary_emb\.inv_freq$"


class Llava(Family):
    model_type = "llava"
    architectures = ("LlavaForConditionalGeneration",)
    txjax_model = "`LLaVA` with the parts of a `llama(...)`, a `CLIPImageTower` and a `MLPProjector`, `llava15(...)`"
    inputs = tuple(_INPUTS)
    outputs = ("logits",)
    text: ClassVar[Llama] = Llama()
    vision: ClassVar[CLIPVision] = CLIPVision()

    def matches(self, model: Any) -> bool:
        if not isinstance(model, LLaVA):
            return False
        return isinstance(model.vision, CLIPImageTower) and isinstance(model.positions, Rotary)

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> LLaVA:
        options.require(vision_feature_select_strategy="default")
        tower = self.vision.tower(self._vision_options(options), None)
        return LLaVA.of(
            self.text.model(self._text_options(options), tensors),
            vision=tower.clone(stack=Stack(outputs=_read_layers(options, tower.depth))),
            projector=MLPProjector(
                activation=options.activation("projector_hidden_act", "gelu"),
                use_bias=options.get("multimodal_projector_bias", True),
            ),
            image_token=self._image_token(options),
        )

    def config(self, model: LLaVA, flat: Flat) -> dict[str, Any]:
        vision: Any = model.vision
        projector: Any = model.projector
        grid = vision.grid(*patches.image_size(vision))
        return {
            "architectures": [*self.architectures],
            "text_config": {"model_type": self.text.model_type, **self.text.config(model, flat)},
            "vision_config": {"model_type": self.vision.model_type, **self.vision.entries(vision, flat, "vision/")},
            "vision_feature_layer": _their_layers(vision.stack.outputs),
            "vision_feature_select_strategy": "default",
            "projector_hidden_act": their_activation(getattr(projector, "activation", "gelu")),
            "multimodal_projector_bias": getattr(projector, "use_bias", True),
            "image_token_index": model.image_token,
            "image_token_id": model.image_token,
            "image_seq_length": grid.rows * grid.columns,
            "tie_word_embeddings": isinstance(model.head, Tied),
        }

    def names(self, options: Options) -> Names:
        head = self.text.head(self._text_options(options))
        copies = {f"{_TEXT}lm_head.weight": f"{_TEXT}{self.text.table}"} if isinstance(head, Tied) else {}
        return Names(copies=copies, buffers=_BUFFERS, renamed=_RENAMED)

    def rules(self, model: LLaVA) -> list[Rule]:
        bias = getattr(model.projector, "use_bias", True)
        return [
            *(rule._replace(hf_name=f"{_TEXT}{rule.hf_name}") for rule in self.text.rules(model)),
            *self.vision.inner_tensors(model.vision, _VISION, "vision/"),
            *linear(f"{_PROJECTOR}linear_1", "projector/hidden", bias=bias),
            *linear(f"{_PROJECTOR}linear_2", "projector/out", bias=bias),
        ]

    def example(self, model: LLaVA, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        tokens = self.text.example(model, self._text_options(options))
        return {**tokens, **self.vision.example(model.vision, self._vision_options(options))}

    def forward(self, model: LLaVA, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """The images of all texts are one after the other; a text has as many as its image tokens are for."""
        arguments = select_inputs(inputs, _INPUTS)
        if "images" in arguments:
            vision: Any = model.vision
            pixels = patches.pixels(arguments["images"])
            grid = vision.grid(*pixels.shape[1:3])
            image_tokens = (arguments["tokens"] == model.image_token).sum(1)
            arguments["images"] = images_by_text(pixels, image_tokens // (grid.rows * grid.columns))
        return {"logits": model.apply(variables, **arguments).dense()}

    def _text_options(self, options: Options) -> Options:
        """The options of the language model. As in the reference, its head is tied if either place says so."""
        part = options.part("text_config")
        part.require(model_type=self.text.model_type)
        tied = any(entries.get("tie_word_embeddings", False) for entries in (options, part))
        head = {"architectures": [self.text.architectures[0]], "tie_word_embeddings": tied}
        return part.with_values(part.values | head)

    def _vision_options(self, options: Options) -> Options:
        part = options.part("vision_config")
        part.require(model_type=self.vision.model_type)
        return part

    def _image_token(self, options: Options) -> int:
        """The id of the image token, which has two keys. Raises UserError unless the vocabulary has it."""
        key = "image_token_id" if options.values.get("image_token_index") is None else "image_token_index"
        token = options.get(key, 32000)
        options.require(image_token_id=token)
        vocab = self._text_options(options).size("vocab_size", 32000)
        if not 0 <= token < vocab:
            raise options.refuse(key, f"a token of the {vocab} in text_config.vocab_size", token)
        return token


def images_by_text(pixels: Float[Array, "N H W C"], counts: Int[Array, " B"]) -> Float[Array, "B N H W C"]:
    """The images of all texts, for each text from its own first one on.

    Args:
      counts: the images of each text.
    """
    first = jnp.cumsum(counts) - counts
    index = jnp.minimum(first[:, None] + jnp.arange(len(pixels))[None], len(pixels) - 1)
    return pixels[index]


def _read_layers(options: Options, depth: int) -> tuple[int, ...] | None:
    """The layers of `Stack.outputs`: theirs are counted from 1, since 0 is what enters the first one."""
    key = "vision_feature_layer"
    value = options.values.get(key)
    value = -2 if value is None else value
    layers = value if isinstance(value, list) else [value]
    if not layers or not all(type(layer) is int and 1 <= abs(layer) <= depth for layer in layers):
        raise options.refuse(key, f"numbers of the {depth} layers, from 1 on or from -1 back", value)
    return None if value == -1 else tuple(layer if layer < 0 else layer - 1 for layer in layers)


def _their_layers(outputs: tuple[int, ...] | None) -> int | list[int]:
    """What `_read_layers` reads as these outputs."""
    layers = [-1] if outputs is None else [layer if layer < 0 else layer + 1 for layer in outputs]
    return layers[0] if len(layers) == 1 and outputs != (-1,) else layers
