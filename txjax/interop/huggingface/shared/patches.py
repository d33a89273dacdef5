"""The patch encoder of the image families."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.errors import UserError
from txjax.interop.huggingface import rules
from txjax.interop.huggingface.family import only_attention
from txjax.interop.huggingface.options import Options, their_activation
from txjax.interop.huggingface.rules import ROWS, TOKEN, Flat, Rule, convolution, linear, norm
from txjax.interop.huggingface.weights import Tensor
from txjax.models.vision.vit.vit import PatchEncoder
from txjax.nn import MLP, Attention, Grid, LayerNorm, Learned, Positions, Sinusoidal2D
from txjax.nn.attention.mixer import PROJECTIONS

TABLE = "vit.embeddings.position_embeddings"


def fields(options: Options) -> dict[str, Any]:
    """The fields of a PatchEncoder but its head, positions and MLP. Raises UserError for unsupported values."""
    return {**layer_fields(options), "image_size": options.sides("image_size", 224)}


def layer_fields(options: Options) -> dict[str, Any]:
    """The sizes of the patches and of the layers but the MLP. Raises UserError for unsupported values."""
    patch = options.sides("patch_size", 16)
    if patch[0] != patch[1]:
        raise options.refuse("patch_size", "square patches", list(patch))
    return {
        "width": options.size("hidden_size", 768),
        "depth": options.size("num_hidden_layers", 12),
        "heads": options.size("num_attention_heads", 12),
        "patch": patch[0],
        "norm": LayerNorm(eps=options.get("layer_norm_eps", 1e-12)),
        "mixer": Attention(
            biases=PROJECTIONS if options.get("qkv_bias", True) else ("out",),
            dropout=options.get("attention_probs_dropout_prob", 0.0),
        ),
        "dropout": options.get("hidden_dropout_prob", 0.0),
    }


def mlp(options: Options) -> MLP:
    """The MLP of the layers."""
    activation = options.activation("hidden_act", "gelu")
    return MLP(hidden=options.size("intermediate_size", 3072), activation=activation)


def config(model: PatchEncoder, flat: Flat) -> dict[str, Any]:
    """The entries of config.json for a PatchEncoder. Raises UserError for one with a stem."""
    entries = layer_entries(model)
    height, width = image_size(model)
    return entries | {
        "image_size": height if height == width else [height, width],
        "num_channels": flat["patch_embed/kernel"].shape[0] // model.patch**2,
    }


def layer_entries(model: PatchEncoder) -> dict[str, Any]:
    """The entries of `layer_fields` and `mlp`. Raises UserError for a model with a stem."""
    if model.stem is not None:
        raise UserError("config.model.stem", "None in a file of Hugging Face's", type(model.stem).__name__)
    return {
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "intermediate_size": model.mlp.hidden_size(model.width),
        "hidden_act": their_activation(model.mlp.activation),
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": only_attention(model).dropout,
        "layer_norm_eps": model.norm.eps,
        "patch_size": model.patch,
        "qkv_bias": any(map(only_attention(model).has_bias, ("query", "key", "value"))),
    }


def image_size(model: PatchEncoder) -> tuple[int, int]:
    """Height and width of a model's images: `image_size`, or else the square that its learned positions imply."""
    if model.image_size:
        height, width = model.image_size
        return height, width
    if isinstance(model.positions, Learned):
        side = round((model.positions.max_length - model.prefix()) ** 0.5)
        if side**2 + model.prefix() == model.positions.max_length:
            return side * model.patch, side * model.patch
    hint = "config.json needs it; set it to the size of the images, such as (224, 224)"
    raise UserError("config.model.image_size", "a height and a width", model.image_size, hint=hint)


def example(model: PatchEncoder, options: Options) -> dict[str, jax.ShapeDtypeStruct]:
    """The shape of an image for `model.init`."""
    shape = (1, *image_size(model), options.size("num_channels", 3))
    return {"image": jax.ShapeDtypeStruct(shape, jnp.float32)}


def waves(image: tuple[int, int], patch: int, width: int) -> np.ndarray:
    """The fixed positions [1 N+1 D] of a class token and the patches of an image."""
    rows, columns = (side // patch for side in image)
    grid = Grid(rows, columns, prefix=1)
    zeros = jnp.zeros((1, rows * columns + 1, width))
    numbers = jnp.arange(rows * columns + 1, dtype=jnp.int32)[None]
    return np.asarray(Sinusoidal2D().apply({}, zeros, numbers, grid, method="add"))


def positions(tensors: Mapping[str, Tensor], names: Mapping[str, int], image: tuple[int, int], patch: int) -> Positions:
    """`Sinusoidal2D` if all tables (name and width) equal its values, else `Learned`."""
    count = (image[0] // patch) * (image[1] // patch) + 1
    for name, width in names.items():
        known = name in tensors and tensors[name].shape == (1, count, width) and width % 4 == 0
        if not known or not np.allclose(tensors[name].read(), waves(image, patch, width), rtol=0, atol=1e-5):
            return Learned(max_length=count)
    return Sinusoidal2D()


def constants(model: PatchEncoder, names: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The tables of fixed positions, which are no parameters of ours."""
    if not isinstance(model.positions, Sinusoidal2D):
        return {}
    return {name: waves(image_size(model), model.patch, width) for name, width in names.items()}


def table(model: PatchEncoder, theirs: str, ours: str) -> list[Rule]:
    """The rule of a table of learned positions."""
    return [Rule(theirs, (ours,), ROWS)] if isinstance(model.positions, Learned) else []


def encoder(model: PatchEncoder, theirs: str = "vit") -> list[Rule]:
    """The rules of a PatchEncoder."""
    return [
        Rule(f"{theirs}.embeddings.cls_token", ("pool/token",), TOKEN),
        *table(model, f"{theirs}.embeddings.position_embeddings", "positions/table/embedding"),
        *linear(f"{theirs}.embeddings.patch_embeddings.projection", "patch_embed", convolution(model.patch)),
        *layer(f"{theirs}.encoder.layer.{{}}", "layers/block", only_attention(model)),
        *norm(f"{theirs}.layernorm", "norm_final"),
    ]


def layer(here: str, ours: str, attention: Attention) -> list[Rule]:
    """The rules of one layer."""
    return rules.layer(here, ours, "attention", ("layernorm_before", "layernorm_after"), attention)


def pixels(values: jax.Array) -> jax.Array:
    """Images [B C H W] as [B H W C]."""
    return values.transpose(0, 2, 3, 1)


def hide(noise: jax.Array, ratio: float) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The indices of the patches with the least noise [B N], and the reference's outputs `mask` and `ids_restore`."""
    order = jnp.argsort(noise, axis=1).astype(jnp.int32)
    restore = jnp.argsort(order, axis=1).astype(jnp.int32)
    count = int(noise.shape[1] * (1 - ratio))
    return order[:, :count], {"mask": (restore >= count).astype(jnp.float32), "ids_restore": restore}
