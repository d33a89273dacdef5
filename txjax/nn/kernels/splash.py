"""Splash attention: JAX's Pallas kernel for TPUs, which skips masked blocks."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.shards import filled, per_device
from txjax.sharding import active, num_shards, partition

LANES = 128  # the smallest block of positions
_BLOCKS = (512, 384, 256, LANES)


def not_splash(query: Any, key: Any, mask: Mask) -> str | None:
    """The reason why the kernel doesn't support a call; None if it does."""
    if query.dtype not in (jnp.bfloat16, jnp.float32):
        return f"{query.dtype} is neither bfloat16 nor float32"
    if min(query.shape[1], key.shape[1]) < LANES:
        return f"fewer than {LANES} positions"
    return None


def splash(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Mask,
    interpret: bool = False,
) -> Float[Array, "B L H K"]:
    """`nn.reference_attention` without a bias, in blocks whose scores stay in on-chip memory (Dao et al. 2022).

    Lengths are padded to whole blocks on every device, in a segment of their own.

    Args:
      interpret: whether to run the kernel in Pallas's interpret mode, on any backend.
    """
    length = query.shape[1]
    whole = LANES * num_shards("length")
    query, key, value, mask = filled(query, key, value, mask, whole, whole if mask.causal or mask.window else LANES)
    kernel = _kernel(query.shape[1], key.shape[1], mask, interpret)
    query = query * jnp.asarray(query.shape[-1] ** -0.5, query.dtype)

    def local(query: Any, key: Any, value: Any, queries: Any, keys: Any, kernel: Any) -> jax.Array:
        query, key, value = (x.transpose(0, 2, 1, 3) for x in (query, key, value))
        if queries is None:
            return jax.vmap(kernel)(query, key, value).transpose(0, 2, 1, 3)
        return jax.vmap(kernel)(query, key, value, _segment_ids(queries, keys)).transpose(0, 2, 1, 3)

    specs = None
    if (mesh := active()) is not None:
        specs = kernel.manual_sharding_spec(
            NamedSharding(mesh, PartitionSpec(None, *partition((query.shape[1],), "length")))
        )
    return per_device(local, query, key, value, mask, more=kernel, more_specs=specs)[:, :length]


def _segment_ids(queries: jax.Array, keys: jax.Array) -> Any:
    from jax.experimental.pallas.ops.tpu.splash_attention import SegmentIds

    return SegmentIds(queries, keys)


def _kernel(length: int, source: int, mask: Mask, interpret: bool) -> Any:
    """The kernel for the static part of a mask, which all heads share."""
    from jax.experimental.pallas.ops.tpu import splash_attention as library

    shape = (length, source)
    window = mask.window
    static: Any = library.FullMask(shape)
    if window is not None:
        static = library.LocalMask(shape, (window - 1, 0 if mask.causal else window - 1), 0)
    elif mask.causal:
        static = library.CausalMask(shape)
    split = num_shards("length")
    queries = _block(length // split)
    keys = _block(source)
    sizes: dict[str, Any] = {"block_q": queries, "block_q_dkv": queries, "block_q_dq": queries}
    sizes |= {f"block_kv{part}": keys for part in ("", "_compute", "_dkv", "_dkv_compute", "_dq")}
    return library.make_splash_mha(
        library.MultiHeadMask([static]),
        block_sizes=library.BlockSizes(**sizes),
        head_shards=1,
        q_seq_shards=split,
        interpret=interpret,
        residual_checkpoint_name="attended",  # its output and its sums: else the backward pass recomputes them
    )


def _block(length: int) -> int:
    """The largest block that divides a length."""
    return next(block for block in _BLOCKS if length % block == 0)
