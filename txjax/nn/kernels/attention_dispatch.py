"""Attention dispatch: the kernel of each call is chosen by backend, dtype and shape, or by name.

`docs/kernels.md` lists which kernel supports what.
"""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from txjax import backend
from txjax.nn.kernels.cudnn import cudnn, not_cudnn
from txjax.nn.kernels.cudnn_packed import cudnn_packed, not_packed
from txjax.nn.kernels.kernel_choice import Choice, record_choice
from txjax.nn.kernels.mask import NO_MASK, Mask
from txjax.nn.kernels.reference_attention import reference_attention
from txjax.nn.kernels.splash import not_splash, splash
from txjax.nn.kernels.tokamax import not_tokamax, tokamax
from txjax.nn.parameters.remat import checkpoint_name
from txjax.sharding import constrain

# The kernel, and the function that returns why it doesn't support a call (None: it does).
KERNELS: dict[str, tuple[Callable[..., Any], Callable[..., str | None]]] = {
    "splash": (splash, not_splash),
    "cudnn": (cudnn, not_cudnn),
    "packed": (cudnn_packed, not_packed),
    "tokamax": (tokamax, not_tokamax),
}
_BY_PLATFORM = {"tpu": "splash", "gpu": "cudnn"}
NAMED = ("reference", "packed", "tokamax")  # kernels that a config may name, on every platform


def choose(
    query: Any,
    key: Any,
    mask: Mask,
    bias: Any = None,
    dropout: Any = None,
    kernel: str | None = None,
) -> Choice:
    """The kernel for a call of `dot_product_attention` with these arguments; arrays may be ShapeDtypeStructs."""
    platform = backend.platform()
    shapes = (query.shape, key.shape)
    asked = "the config names it"
    name = kernel or _BY_PLATFORM.get(platform)
    if name is None or name == "reference":
        return Choice("reference", asked if name else f"no other kernel for {platform}", *shapes)
    why = _refusal(query, key, mask, bias, dropout) or KERNELS[name][1](query, key, mask)
    if why is not None:
        return Choice("reference", why, *shapes)
    return Choice(name, asked if kernel else f"the kernel for {platform}", *shapes)


def _refusal(query: Any, key: Any, mask: Mask, bias: Any, dropout: Any) -> str | None:
    """The reason why only the reference supports a call; None if others may."""
    if bias is not None:
        return "a bias is added to the scores"
    if dropout is not None:
        return "the weights are dropped out"
    if mask.offset is not None:
        return "tokens are decoded into a cache"
    if mask.allowed is not None:
        return "the mask is an array"
    if mask.prefix and mask.segments is not None:
        return "a prompt is of all segments"
    if (mask.causal or mask.window) and query.shape[1] != key.shape[1]:
        return "a causal mask or a window over as many queries as keys is wanted"
    return None


def dot_product_attention(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Mask = NO_MASK,
    bias: Float[Array, "#B H L S"] | None = None,
    dropout: Callable[[jax.Array], jax.Array] | None = None,
    kernel: str | None = None,
) -> Float[Array, "B L H K"]:
    """softmax(query . key / sqrt(K) + bias) . value by the kernel that `choose` names; see `reference_attention`.

    Every device has the keys and values of all positions.

    Args:
      bias: float32, added to the scores.
      dropout: of the weights. If None, no dropout.
      kernel: one of `NAMED`. If None, the platform's. If it doesn't support the call, the reference computes it.

    The operations are in a scope `pairs_N_of_M`: the mask's static part allows N of the M = L * S pairs of a query
    and a key, so that FLOPs can be counted for those alone.
    """
    query = constrain(query, "batch", "length", "heads", None)
    key, value = (constrain(x, "batch", None, "kv_heads", None) for x in (key, value))
    choice = choose(query, key, mask, bias, dropout, kernel)
    with record_choice(choice, mask):
        if choice.kernel == "reference":
            return checkpoint_name(reference_attention(query, key, value, mask, bias, dropout), "attended")
        return KERNELS[choice.kernel][0](query, key, value, mask)
