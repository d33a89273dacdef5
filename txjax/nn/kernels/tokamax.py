"""Attention by the kernel library tokamax: Pallas kernels for GPUs and TPUs, and XLA elsewhere.

It is never the default (`AllGatherKV(kernel="tokamax")` chooses it): it has not been measured on an accelerator yet.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from txjax import backend
from txjax.errors import require
from txjax.nn.kernels.kernel_support import Call, refusal
from txjax.nn.kernels.mask import Mask
from txjax.nn.kernels.shards import per_device
from txjax.nn.parameters.remat import checkpoint_name
from txjax.sharding import num_shards


def not_tokamax(query: Any, key: Any, mask: Mask) -> str | None:
    """The reasons why none of the library's kernels supports a call; None if one does.

    Raises:
      UserError: the library is not installed.
    """
    require("tokamax", "tokamax", "config.model.mixer.context_parallel.kernel", extra="tokamax")
    if num_shards("length") > 1:
        return "the length is split over devices"
    reasons = {name: refusal(kernel, Call.of(query, key, mask)) for name, kernel in _kernels().items()}
    if None in reasons.values():
        return None
    return "; ".join(f"tokamax's {name}: {why}" for name, why in reasons.items())


def tokamax(
    query: Float[Array, "B L H K"],
    key: Float[Array, "B S G K"],
    value: Float[Array, "B S G K"],
    mask: Mask,
) -> Float[Array, "B L H K"]:
    """`nn.reference_attention` without a bias, by the library's first kernel for this backend that supports the call.

    Segments become a mask [B 1 L S], the only form that the kernels support.
    """
    call = Call.of(query, key, mask)
    kernel = next(kernel for kernel in _kernels().values() if refusal(kernel, call) is None)
    out = per_device(functools.partial(kernel, mask.causal, mask.window), query, key, value, mask)
    return checkpoint_name(out, "attended")


def _kernels() -> dict[str, Callable[..., jax.Array]]:
    """The library's kernels for the backend by name, in order of preference."""
    return {"gpu": {"mosaic": _mosaic, "triton": _triton}, "tpu": {"mosaic": _mosaic}}.get(
        backend.platform(), {"xla": _xla}
    )


def _mosaic(*args: Any) -> jax.Array:
    return _call("mosaic", *args)


def _triton(*args: Any) -> jax.Array:
    return _call("triton", *args)


def _xla(*args: Any) -> jax.Array:
    return _call("xla", *args)


def _call(
    implementation: Any,
    causal: bool,
    window: int | None,
    query: Any,
    key: Any,
    value: Any,
    queries: Any,
    keys: Any,
    _: Any = None,
) -> jax.Array:
    import tokamax
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # else versions before 0.0.17 parse this process's command line as their own
    allowed = Mask(query_segments=queries, key_segments=keys).dense(query.shape[1], key.shape[1])
    near = None if window is None else (window - 1, 0 if causal else window - 1)
    return tokamax.dot_product_attention(
        query, key, value, mask=allowed, is_causal=causal, local_window_size=near, implementation=implementation
    )
