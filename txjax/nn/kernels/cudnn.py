"""cuDNN's flash attention for NVIDIA GPUs, through `jax.nn.dot_product_attention`."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.nn.kernels.kernel_support import Call, refusal
from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.shards import filled, per_device
from txjax.nn.parameters.remat import CUDNN_ATTENDED, checkpoint_name
from txjax.sharding import num_shards


def not_cudnn(query: Any, key: Any, mask: Mask) -> str | None:
    """The reason why the kernel doesn't support a call; None if it does."""
    if query.dtype not in (jnp.bfloat16, jnp.float16):
        return f"{query.dtype} is neither bfloat16 nor float16"
    if mask.window is not None and not mask.causal:
        return "a window that is not causal"
    if num_shards("length") > 1:
        return "the length is split over devices"
    return refusal_at_even_lengths(_call, query, key, mask)


def refusal_at_even_lengths(kernel: Callable[..., Any], query: Any, key: Any, mask: Mask) -> str | None:
    """The reason why cuDNN doesn't support a call whose lengths are padded to even ones; None if it does.

    Args:
      kernel: calls it, see `kernel_support.refusal`.
    """
    queries, keys = ((x.shape[0], x.shape[1] + x.shape[1] % 2, *x.shape[2:]) for x in (query, key))
    reason = refusal(kernel, Call.of(query, key, mask)._replace(query=queries, key=keys))
    return None if reason is None else f"cuDNN: {reason}"


def cudnn(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Mask,
) -> Float[Array, "B L H K"]:
    """`nn.reference_attention` without a bias, in blocks whose scores stay in on-chip memory (Dao et al. 2022).

    Segments become a mask [B 1 L S]. Odd lengths, which the kernel's backward pass doesn't support, are padded by one
    position: in a segment of its own, or without segments behind the lengths that the kernel reads.
    """
    lengths = query.shape[1], key.shape[1]
    query, key, value, padded = filled(query, key, value, mask, 2, 2)
    call = functools.partial(_call, mask.causal, mask.window)
    if mask.segments is None and padded.segments is not None:
        out = per_device(functools.partial(call, lengths=lengths), query, key, value, mask)
    else:
        out = per_device(call, query, key, value, padded)
    return checkpoint_name(out[:, : lengths[0]], CUDNN_ATTENDED)


def _call(
    causal: bool,
    window: int | None,
    query: Any,
    key: Any,
    value: Any,
    queries: Any,
    keys: Any,
    _: Any = None,
    lengths: tuple[int, int] | None = None,
) -> jax.Array:
    """Of one device. `lengths`: of queries and keys without padding; None if nothing is padding."""
    allowed = Mask(query_segments=queries, key_segments=keys).dense(query.shape[1], key.shape[1])
    near = None if window is None else (window - 1, 0)
    of_queries, of_keys = (None, None) if lengths is None else (jnp.full(len(query), n, jnp.int32) for n in lengths)
    return jax.nn.dot_product_attention(
        query,
        key,
        value,
        mask=allowed,
        is_causal=causal,
        query_seq_lengths=of_queries,
        key_value_seq_lengths=of_keys,
        local_window_size=near,
        implementation="cudnn",
    )
