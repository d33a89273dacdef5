"""What the tables of hierarchical image families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from txjax.interop.huggingface.family import Family, Inputs, select_inputs
from txjax.interop.huggingface.options import Options, labels
from txjax.interop.huggingface.rules import Rule, linear
from txjax.interop.huggingface.shared import patches
from txjax.interop.huggingface.weights import Tensor
from txjax.models.hierarchical import Hierarchical, Stage
from txjax.nn import Classes, ConvEmbedding, Head, Pool, Pooled
from txjax.types import PyTree

_SIZES = ("side", "stride", "padding")


class Stages(Family):
    """Base of the families of hierarchical image models: `architectures` has the classifier, then the bare model.

    Attributes:
      linear: the name of the classifier's layer.
    """

    linear = "classifier"
    inputs = ("pixel_values",)
    unless_given = {"image_size": 224}

    def example(self, model: Hierarchical, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
        sides = options.sides("image_size", 224)
        return {"image": jax.ShapeDtypeStruct((1, *sides, options.size("num_channels", 3)), jnp.float32)}

    def forward(self, model: Hierarchical, variables: PyTree, inputs: Inputs) -> dict[str, jax.Array]:
        """`logits` of a classifier; without one `pooler_output`."""
        image = patches.pixels(select_inputs(inputs, {"pixel_values": "image"})["image"])
        output = model.apply(variables, image)
        return {"logits" if isinstance(model.head, Classes) else "pooler_output": output}

    def head(self, options: Options, tensors: Mapping[str, Tensor], pool: Pool) -> Head:
        """A classifier, or the pooled features of the model without one."""
        if options.values["architectures"] != [self.architectures[0]]:
            return Pooled(pool)
        weight = tensors.get(f"{self.linear}.weight")
        return Classes(1 if weight is None else weight.shape[0], pool)

    def architecture_entries(self, model: Hierarchical) -> dict[str, Any]:
        """The entries of config.json for the architecture and its classes."""
        if isinstance(model.head, Classes):
            return {"architectures": [self.architectures[0]]} | labels(model.head.classes)
        return {"architectures": [self.architectures[-1]]}

    def classifier(self, model: Hierarchical) -> list[Rule]:
        """The rules of the head."""
        return linear(self.linear, "head") if isinstance(model.head, Classes) else []


def stages(
    options: Options, widths: Sequence[int], heads: Sequence[int] | None = None, key: str = "depths"
) -> tuple[Stage, ...]:
    """The stages with these widths and heads. Raises UserError if there are other numbers of depths."""
    depths = numbers(options, key, [2, 2, 6, 2])
    heads = heads or [1] * len(widths)
    if not len(depths) == len(widths) == len(heads):
        raise options.refuse(key, f"{len(widths)} numbers, one a stage", depths)
    return tuple(Stage(*sizes) for sizes in zip(widths, depths, heads, strict=True))


def embeddings(options: Options, count: int, keys: tuple[str, str, str], kind: type[ConvEmbedding]) -> dict[str, Any]:
    """The stem, and the embedding of all later ones of `count` stages.

    Args:
      keys: of the lists of sides, strides and padding.
    """
    usual = zip(keys, (7, 4, 2), (3, 2, 1), strict=True)
    sizes_by_key = [numbers(options, key, [first, *[later] * (count - 1)]) for key, first, later in usual]
    stem, *others = list(zip(*sizes_by_key, strict=False))[:count]
    if len(others) + 1 < count or len(set(others)) > 1:
        raise options.refuse(keys[0], "one size, stride and padding for all stages but the first", sizes_by_key[0])
    parts = {"stem": stem, "downsample": (others or [stem])[0]}
    return {name: kind(**dict(zip(_SIZES, sizes, strict=True))) for name, sizes in parts.items()}


def embedded_by(model: Hierarchical, kind: type[ConvEmbedding]) -> bool:
    """Whether the stem and the downsampling are of this kind."""
    return isinstance(model.stem, kind) and isinstance(model.downsample, kind)


def embedding_entries(model: Hierarchical, keys: tuple[str, str, str]) -> dict[str, list[int]]:
    """The entries of config.json for these embeddings, a list of one number a stage each."""
    embedding_parts = [model.stem, *[model.downsample] * (len(model.stages) - 1)]
    return {key: [getattr(part, size) for part in embedding_parts] for key, size in zip(keys, _SIZES, strict=True)}


def numbers(options: Options, key: str, default: list[int]) -> list[int]:
    """A list of integers of at least 1."""
    value = options.values.get(key, default)
    if not isinstance(value, list) or not value or not all(type(number) is int and number > 0 for number in value):
        raise options.refuse(key, "a list of integers above 0", value)
    for size in value:
        options.check_limit(key, size)
    return value


def scale(options: Options) -> float | None:
    """The first value of the layer scale; None if the model has none."""
    value = options.get("layer_scale_init_value", 1e-6)
    return value if value > 0 else None
