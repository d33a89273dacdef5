"""Floating point operations of any function, counted from its own traced operations, and what devices can do."""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

# Dense bfloat16 FLOP/s of one device, from the makers' data sheets, by a part of jax's `device_kind`.
PEAK_FLOPS: dict[str, float] = {
    "A100": 312e12,
    "H100": 989.5e12,
    "H100 PCIe": 756e12,
    "H200": 989.5e12,
    "TPU v4": 275e12,
    "TPU v5": 459e12,  # v5p
    "TPU v5 lite": 197e12,  # v5e
    "TPU v5e": 197e12,
    "TPU v6 lite": 918e12,  # v6e
    "TPU v6e": 918e12,
}


def peak(device: jax.Device) -> float | None:
    """The device's dense bfloat16 FLOP/s, None if unknown. The longest name in its kind holds."""
    kind = device.device_kind.lower()
    names = [name for name in PEAK_FLOPS if name.lower() in kind]
    return PEAK_FLOPS[max(names, key=len)] if names else None


def count(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """FLOPs of the matrix products and convolutions of one call, over all devices; nothing runs.

    A product of [M K] and [K N] counts 2 M K N. A scan counts its length times, of a `cond` the dearest branch counts,
    and the body of a `while_loop`, whose rounds nobody knows, counts once. Padding that a convolution or a mask makes
    useless counts: it is computed. Elementwise work does not.

    Args:
      fn: any function that jax can trace.
      args: its arguments; arrays may be ShapeDtypeStructs.
    """
    return _count(jax.make_jaxpr(fn)(*args, **kwargs).jaxpr)


def _count(jaxpr: Jaxpr) -> int:
    return sum(_count_one(eqn) for eqn in jaxpr.eqns)


def _count_one(eqn: JaxprEqn) -> int:
    match eqn.primitive.name:
        case "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            left, out = _shape(eqn.invars[0]), _shape(eqn.outvars[0])
            return 2 * math.prod(out) * math.prod(left[i] for i in contracted)
        case "ragged_dot_general":  # every row meets one matrix; a gradient's rows are summed group by group
            numbers = eqn.params["ragged_dot_dimension_numbers"]
            (contracted, _), _ = numbers.dot_dimension_numbers
            left, out = _shape(eqn.invars[0]), _shape(eqn.outvars[0])
            met = out if numbers.rhs_group_dimensions else out[1:]
            return 2 * math.prod(met) * math.prod(left[i] for i in contracted)
        case "conv_general_dilated":
            out_features = eqn.params["dimension_numbers"].rhs_spec[0]
            kernel, out = _shape(eqn.invars[1]), _shape(eqn.outvars[0])
            return 2 * math.prod(out) * math.prod(kernel) // kernel[out_features]
        case "scan":
            return eqn.params["length"] * _count(eqn.params["jaxpr"].jaxpr)
        case "cond":
            return max(_count(branch.jaxpr) for branch in eqn.params["branches"])
    # jit, remat, custom derivatives and the like hold one jaxpr.
    inner = [value for value in eqn.params.values() if isinstance(value, ClosedJaxpr | Jaxpr)]
    return sum(_count(value.jaxpr if isinstance(value, ClosedJaxpr) else value) for value in inner)


def _shape(variable: Any) -> tuple[int, ...]:
    return variable.aval.shape
