"""The weights of every attention of a model, for a batch."""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn import MAPS
from txjax.nn.stack import captures
from txjax.types import PyTree, flat_paths


class Maps(NamedTuple):
    """The weights of one attention in all layers.

    Attributes:
      weights: float32; of attention in windows [layers BW H S S], the windows of an example one after the other.
      windows: the numbers of each window's tokens in their grid; -1 is padding. If None, a token sees whole sequences.
    """

    weights: Float[Array, "layers B H L S"]
    windows: Int[Array, "layers W S"] | None = None


def sown_maps(model: Any, variables: PyTree, inputs: dict[str, Any]) -> dict[str, Maps]:
    """The maps by the path of the attention's parameters, such as `decoder/layers/block/cross`; {} without any.

    Args:
      variables: as of `model.init`.
      inputs: the model's arguments, as of an objective's `inputs`.
    """
    with captures.attention_maps():
        _, state = model.apply(variables, **inputs, train=False, mutable=[MAPS])
    sown = flat_paths(state.get(MAPS, {}))

    def windows(path: str) -> jax.Array | None:
        tokens = sown.get(f"{path}/windows")
        return None if tokens is None else tokens.reshape(-1, *tokens.shape[-2:])

    paths = {path.removesuffix("/weights"): x for path, x in sown.items() if path.endswith("/weights")}
    return {path: Maps(x.reshape(-1, *x.shape[-4:]), windows(path)) for path, x in paths.items()}


def attention_maps(model: Any, variables: PyTree, inputs: dict[str, Any]) -> dict[str, Float[Array, "layers B H L S"]]:
    """The attention weights alone; see `sown_maps`.

    Raises:
      UserError: the model has no attention, or none whose weights `nn.stack.captures` knows.
    """
    maps_by_path = sown_maps(model, variables, inputs)
    if not maps_by_path:
        expected = "a model whose attention is an nn.Attention or nn.LinearAttention, with its own attend()"
        raise UserError("config.model", expected, type(model).__name__)
    return {path: maps.weights for path, maps in maps_by_path.items()}
