"""The weights of every attention of a model, for a batch."""

from typing import Any

from jaxtyping import Array, Float

from txjax.nn import MAPS
from txjax.types import PyTree, UserError, flat_paths


def attention_maps(model: Any, variables: PyTree, inputs: dict[str, Any]) -> dict[str, Float[Array, "layers B H L S"]]:
    """The attention weights by the path of the attention's parameters, such as `decoder/layers/block/cross`.

    Args:
      variables: as of `model.init`.
      inputs: the model's arguments, as of an objective's `inputs`.

    Raises:
      UserError: the model has no attention, or none that follows `nn.Attention.attend`.
    """
    _, seen = model.apply(variables, **inputs, train=False, mutable=[MAPS])
    found = flat_paths(seen.get(MAPS, {}))
    if not found:
        expected = "a model whose attention is an nn.Attention, with its own attend() or one that sows its weights"
        raise UserError("config.model", expected, type(model).__name__)
    return {path.removesuffix("/weights"): x.reshape(-1, *x.shape[-4:]) for path, x in found.items()}
