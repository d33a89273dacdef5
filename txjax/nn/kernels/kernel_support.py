"""Whether a kernel of another library supports a call, found by tracing it; nothing runs."""

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax._src.cudnn import fused_attention_stablehlo
from jax.typing import DTypeLike

from txjax.nn.kernels.mask import Mask

log = logging.getLogger("txjax")


class Call(NamedTuple):
    """The properties of a call that a kernel's support may depend on.

    Attributes:
      query, key: shapes [B L H K] and [B S G K].
      dtype: of both, and of the values.
      causal, window: of the mask.
      segmented: whether the mask has segments.
    """

    query: tuple[int, ...]
    key: tuple[int, ...]
    dtype: DTypeLike
    causal: bool
    window: int | None
    segmented: bool

    @staticmethod
    def of(query: Any, key: Any, mask: Mask) -> "Call":
        """The call with these arguments; arrays may be ShapeDtypeStructs."""
        return Call(query.shape, key.shape, query.dtype, mask.causal, mask.window, mask.segments is not None)


@functools.cache
def refusal(kernel: Callable[..., Any], call: Call) -> str | None:
    """The error of `kernel(causal, window, query, key, value, query_segments, key_segments)`, forward or backward.

    None if it supports the call. The kernel must be a module-level function: the result is cached.
    """

    def total(*arrays: Any) -> jax.Array:
        return kernel(call.causal, call.window, *arrays).astype(jnp.float32).sum()

    arrays = [jax.ShapeDtypeStruct(shape, call.dtype) for shape in (call.query, call.key, call.key)]
    segments = [
        jax.ShapeDtypeStruct(shape[:2], jnp.int32) if call.segmented else None for shape in (call.query, call.key)
    ]
    try:
        jax.eval_shape(jax.grad(total, argnums=(0, 1, 2)), *arrays, *segments)
    except (NotImplementedError, ValueError) as error:
        return str(error)
    except RuntimeError as error:  # the library is missing or too old, whatever the call
        log.warning("attention is computed without its fused kernel, about twice as slowly: %s", error)
        return str(error)
    return None


@contextmanager
def cuda_capability(capability: tuple[int, int] | None) -> Iterator[None]:
    """Kernels are traced for GPUs of this capability, for which JAX would ask the GPU of this process.

    If None, nothing changes.
    """
    if capability is None:
        yield
        return

    def number(version: str) -> tuple[int, ...]:
        return tuple(map(int, version.split(".")))

    module = vars(fused_attention_stablehlo)
    answers = {
        "check_compute_capability": lambda version: capability >= number(version),
        "is_cuda_compute_capability_equal": lambda version: capability == number(version),
    }
    usual = {name: module[name] for name in answers if name in module}  # which of them JAX asks differs by version
    refusal.cache_clear()
    module.update({name: answers[name] for name in usual})
    try:
        yield
    finally:
        module.update(usual)
        refusal.cache_clear()
