"""cuDNN's flash attention over rows of several documents, by the documents' lengths instead of a mask [B 1 L L].

It uses a function of JAX that `jax.nn` does not offer yet, and needs Hopper or a later generation.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax._src.cudnn.fused_attention_stablehlo import MaskType, dot_product_attention
from jaxtyping import Array, Bool, Float, Int

from txjax import backend
from txjax.nn.kernels.cudnn import cudnn, not_cudnn, refusal_at_even_lengths
from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.shards import filled, per_device
from txjax.nn.parameters.remat import CUDNN_ATTENDED, checkpoint_name

DOCUMENTS = 32  # of a row; the number is compiled in


def not_packed(query: Any, key: Any, mask: Mask) -> str | None:
    """The reason why the kernel doesn't support a call; None if it does."""
    if backend.platform() != "gpu":
        return "packed documents are for NVIDIA GPUs"
    reason = not_cudnn(query, key, mask)
    if reason is not None or not _has_documents(query, key, mask):
        return reason
    return refusal_at_even_lengths(_packed, query, key, mask)


def cudnn_packed(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B L G K"],
    value: Float[Array, "B L G K"],
    mask: Mask,
) -> Float[Array, "B L H K"]:
    """`nn.reference_attention` without a bias; its work grows with the sum of the documents' squared lengths.

    Rows without segments, and keys of another length than the queries, are `cudnn`'s.
    Rows of more than `DOCUMENTS` documents, and rows whose segments are no sequence of documents, are NaN, so that a
    train step drops its update and counts it.
    """
    if not _has_documents(query, key, mask):
        return cudnn(query, key, value, mask)
    length = query.shape[1]
    query, key, value, mask = filled(query, key, value, mask, 2, 2)
    out = per_device(functools.partial(_packed, mask.causal, mask.window), query, key, value, mask)
    return checkpoint_name(out[:, :length], CUDNN_ATTENDED)


def _has_documents(query: Any, key: Any, mask: Mask) -> bool:
    return mask.segments is not None and query.shape[1] == key.shape[1]


def are_packed(queries: Int[Array, "B L"], keys: Int[Array, "B L"]) -> Bool[Array, "B"]:
    """Whether queries and keys are of the same documents, at most `DOCUMENTS` of a row, each in one piece."""
    pieces = (queries[:, 1:] != queries[:, :-1]).sum(1)
    ordered = jnp.sort(queries, 1)
    segments = (ordered[:, 1:] != ordered[:, :-1]).sum(1)
    return (queries == keys).all(1) & (pieces == segments) & (pieces < DOCUMENTS)


def document_lengths(segments: Int[Array, "B L"]) -> tuple[Int[Array, "B M"], Int[Array, "B M+1"]]:
    """The length of each of M documents of a row, and its first position, as JAX takes them: -1 where there is none."""
    begins = jnp.pad(segments[:, 1:] != segments[:, :-1], ((0, 0), (1, 0)))
    number = jnp.cumsum(begins, 1, dtype=jnp.int32)
    lengths = jax.nn.one_hot(number, DOCUMENTS, dtype=jnp.int32).sum(1)
    offsets = jnp.where(lengths > 0, jnp.cumsum(lengths, 1, dtype=jnp.int32) - lengths, -1)
    return jnp.where(lengths > 0, lengths, -1), jnp.pad(offsets, ((0, 0), (0, 1)), constant_values=-1)


def _packed(
    causal: bool, window: int | None, query: Any, key: Any, value: Any, queries: Any, keys: Any, _: Any = None
) -> jax.Array:
    """Of one device."""
    lengths, offsets = document_lengths(queries)
    out = dot_product_attention(
        query,
        key,
        value,
        q_seqlen=lengths,
        kv_seqlen=lengths,
        q_offsets=offsets,
        kv_offsets=offsets,
        scale=query.shape[-1] ** -0.5,
        mask_type=MaskType.PADDING_CAUSAL if causal else MaskType.PADDING,
        sliding_window_length=window,
    )
    return jnp.where(are_packed(queries, keys)[:, None, None, None], out, jnp.nan)
