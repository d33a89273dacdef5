"""What the files of CLIP and of SigLIP share: towers of images and of texts, and the pair of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.errors import UserError
from txjax.interop.huggingface.family import Family, Inputs, only_attention, select_inputs
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import SAME, Flat, Names, Rule, TensorLayout, linear, norm, projections
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.weights import Tensor
from txjax.models.multimodal.two_towers.two_towers import TwoTowers
from txjax.nn import MLP, Attention, Head, LayerNorm, Learned, PairFeatures
from txjax.types import PyTree

_BUFFERS = r"embeddings\.position_ids$"
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "out_proj"}


class Tower(Family):
    """A tower, as a model of its own or inside another one.

    Attributes:
      kind: the class of our model.
      defaults: the values of the keys that config.json may lack.
      prefix: of the names of its tensors in the file of a model that has other modules too.
    """

    kind: ClassVar[Any]
    defaults: ClassVar[dict[str, Any]]
    prefix: ClassVar[str]

    def model(self, options: Options, tensors: Mapping[str, Tensor]) -> Any:
        return self.tower(options, self.head(options))

    def tower(self, options: Options, head: Head | None) -> Any:
        """The tower with this head. Raises UserError with the key of an option that txjax can't represent."""
        known = {key: value for key, value in options.values.items() if value is not None}
        options = options.with_values(self.defaults | known)
        return self.built(
            options,
            head=head,
            width=options.size("hidden_size", 1),
            depth=options.size("num_hidden_layers", 1),
            heads=options.size("num_attention_heads", 1),
            norm=LayerNorm(eps=options.get("layer_norm_eps", 1.0)),
            mixer=Attention(dropout=options.get("attention_dropout", 0.0)),
            mlp=MLP(hidden=options.size("intermediate_size", 1), activation=options.activation("hidden_act", "")),
        )

    def built(self, options: Options, **fields: Any) -> Any:
        """The tower of complete options, with these fields of its layers and this head."""
        raise NotImplementedError

    def head(self, options: Options) -> Head | None:
        """The head of the class in the options."""
        raise NotImplementedError

    def entries(self, model: Any, flat: Flat, at: str = "") -> dict[str, Any]:
        """The entries of config.json for the tower whose arrays are below `at`, but for its class."""
        return {
            "hidden_size": model.width,
            "num_hidden_layers": model.depth,
            "num_attention_heads": model.heads,
            "intermediate_size": model.mlp.hidden_size(model.width),
            "hidden_act": their_activation(model.mlp.activation),
            "layer_norm_eps": model.norm.eps,
            "attention_dropout": only_attention(model).dropout,
        }

    def tensors(self, model: Any, prefix: str) -> list[Rule]:
        """The rules of the tower, with this prefix of their names."""
        layer = f"{prefix}encoder.layers.{{}}"
        ours = "layers/block"
        return [
            Rule(f"{prefix}embeddings.position_embedding.weight", ("positions/table/embedding",), SAME),
            *norm(f"{layer}.layer_norm1", f"{ours}/norm_attention"),
            *projections(f"{layer}.self_attn", f"{ours}/attention", _PROJECTIONS, only_attention(model)),
            *norm(f"{layer}.layer_norm2", f"{ours}/norm_mlp"),
            *linear(f"{layer}.mlp.fc1", f"{ours}/mlp/up"),
            *linear(f"{layer}.mlp.fc2", f"{ours}/mlp/down"),
        ]

    def inner_tensors(self, model: Any, prefix: str, at: str) -> list[Rule]:
        """The rules of the tower inside a model that has its arrays below `at`, with this prefix of their names."""
        return [
            rule._replace(param_paths=tuple(f"{at}{path}" for path in rule.param_paths))
            for rule in self.tensors(model, prefix)
        ]

    def rules(self, model: Any) -> list[Rule]:
        return self.tensors(model, "")

    def names(self, options: Options) -> Names:
        """Files of the hub have the prefix, those of transformers 5 don't."""
        return Names(buffers=_BUFFERS, renamed={re.escape(self.prefix): ""})

    def arguments(self, inputs: Inputs) -> dict[str, jax.Array]:
        """Our arguments for their inputs."""
        raise NotImplementedError


class ImageTower(Tower):
    """A tower of images.

    Attributes:
      tokens: how many are before the patches.
    """

    prefix = "vision_model."
    inputs = ("pixel_values",)
    tokens: ClassVar[int] = 0

    def built(self, options: Options, **fields: Any) -> Any:
        patch = options.size("patch_size", 1)
        side = options.size("image_size", 1)
        positions = Learned(max_length=(side // patch) ** 2 + self.tokens)
        return self.kind(patch=patch, image_size=(side, side), positions=positions, **fields)

    def entries(self, model: Any, flat: Flat, at: str = "") -> dict[str, Any]:
        height, width = patches.image_size(model)
        if height != width:
            raise UserError("config.model.image_size", "a square", [height, width])
        channels = flat[f"{at}patch_embed/kernel"].shape[0] // model.patch**2
        layout = {"image_size": height, "patch_size": model.patch, "num_channels": channels}
        return super().entries(model, flat, at) | layout

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return patches.example(model, options)

    def arguments(self, inputs: Inputs) -> dict[str, jax.Array]:
        return {"image": patches.pixels(select_inputs(inputs, {"pixel_values": "image"})["image"])}


class TextTower(Tower):
    """A tower of texts."""

    prefix = "text_model."

    def built(self, options: Options, **fields: Any) -> Any:
        positions = Learned(max_length=options.size("max_position_embeddings", 1))
        return self.kind(vocab=options.size("vocab_size", 1), positions=positions, **fields)

    def entries(self, model: Any, flat: Flat, at: str = "") -> dict[str, Any]:
        sizes = {"vocab_size": model.vocab, "max_position_embeddings": model.positions.max_length}
        return super().entries(model, flat, at) | sizes

    def tensors(self, model: Any, prefix: str) -> list[Rule]:
        return [
            Rule(f"{prefix}embeddings.token_embedding.weight", ("embed/embedding",), SAME),
            *super().tensors(model, prefix),
            *norm(f"{prefix}final_layer_norm", "norm_final"),
        ]

    def example(self, model: Any, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        return {"tokens": jax.ShapeDtypeStruct((1, 1), jnp.int32)}


class Pair(Family):
    """A tower of images and one of texts, whose features are compared.

    Attributes:
      vision, text: the families of the towers.
      scalar: the form of a tensor of one number.
    """

    vision: ClassVar[ImageTower]
    text: ClassVar[TextTower]
    scalar: ClassVar[TensorLayout]
    outputs = ("logits_per_image", "logits_per_text", "image_embeds", "text_embeds")

    @property
    def towers(self) -> dict[str, Tower]:
        """The families of the towers by the name of our field."""
        return {"vision": self.vision, "text": self.text}

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        return (*self.text.inputs, *self.vision.inputs)

    def matches(self, model: Any) -> bool:
        towers = self.towers.items()
        return isinstance(model, TwoTowers) and all(tower.matches(getattr(model, name)) for name, tower in towers)

    def side(self, options: Options, name: str) -> Options:
        """The options of one of the towers."""
        part = options.part(f"{name}_config")
        part.require(model_type=self.towers[name].model_type)
        return part

    def config(self, model: TwoTowers, flat: Flat) -> dict[str, Any]:
        sides = {
            f"{name}_config": {"model_type": tower.model_type, **tower.entries(getattr(model, name), flat, f"{name}/")}
            for name, tower in self.towers.items()
        }
        return {"architectures": [*self.architectures], **sides}

    def names(self, options: Options) -> Names:
        return Names(buffers=_BUFFERS)

    def rules(self, model: TwoTowers) -> list[Rule]:
        numbers = ("logit_scale",) if model.bias is None else ("logit_scale", "logit_bias")
        entries = [Rule(name, (name,), whole=self.scalar) for name in numbers]
        for name, tower in self.towers.items():
            entries += tower.inner_tensors(getattr(model, name), tower.prefix, f"{name}/")
        return entries

    def example(self, model: TwoTowers, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        shapes: dict[str, jax.ShapeDtypeStruct] = {}
        for name, tower in self.towers.items():
            shapes |= tower.example(getattr(model, name), self.side(options, name))
        return shapes

    def forward(self, model: TwoTowers, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        arguments = {**self.vision.arguments(inputs), **self.text.arguments(inputs)}
        features: PairFeatures = model.apply(variables, **arguments)
        logits = features.logits()
        return {
            "logits_per_image": logits,
            "logits_per_text": logits.T,
            "image_embeds": features.image,
            "text_embeds": features.text,
        }
