"""JAX's guard of copies from a device to the host, which does nothing on a CPU, as accelerators have it."""

import functools
from typing import Any

import jax
import numpy as np
from jax._src.array import ArrayImpl
from jax._src.lib import guard_lib

_ARRAY: Any = ArrayImpl


def install() -> None:
    """Lets a copy that is not explicit raise inside `jax.transfer_guard("disallow")`, as on a GPU or TPU.

    Explicit copies are `jax.device_get`'s.
    """
    value = _ARRAY._value
    copy = _ARRAY.copy_to_host_async

    def guarded_value(array: Any) -> Any:
        _check(array)
        return value.fget(array)

    def guarded_copy(array: Any) -> None:
        _check(array)
        copy(array)

    _ARRAY._value = property(guarded_value)
    _ARRAY.copy_to_host_async = guarded_copy
    for name in ("array", "asarray"):  # which read an array of a CPU where it lies, without asking JAX
        setattr(np, name, _guarded(getattr(np, name)))


def _guarded(convert: Any) -> Any:
    """One of NumPy's functions, which checks its argument first."""

    @functools.wraps(convert)
    def converted(object: Any, *args: Any, **options: Any) -> Any:
        if isinstance(object, _ARRAY):
            _check(object)
        return convert(object, *args, **options)

    return converted


def _check(array: Any) -> None:
    state = guard_lib.thread_local_state()
    if state.device_to_host == guard_lib.TransferGuardLevel.DISALLOW and not state.explicit_device_get:
        raise jax.errors.JaxRuntimeError(f"Disallowed device-to-host transfer: shape={array.shape}")
