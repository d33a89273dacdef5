"""Floating point operations of any function, counted from its jaxpr."""

import collections
import math
import re
from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, jaxpr_as_fun
from jax.interpreters.partial_eval import dce_jaxpr

from txjax import backend

Scope = tuple[str, ...]  # the names around an operation, outermost first


def count(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
    """FLOPs of the matrix products, convolutions and Fourier transforms of one call, over all devices; nothing runs.

    A product of [M K] and [K N] counts 2 M K N. A Fourier transform of N complex numbers counts 5 N log2 N, one of N
    real numbers half of that, whatever the algorithm (Frigo and Johnson 2005). A scan counts its length times, of a
    `cond` the most expensive branch counts, and the body of a `while_loop`, whose number of turns is unknown, counts
    once. Of attention, only the pairs of a query and a key count that its causal mask or its local window allows;
    documents packed into one window, whose lengths are data, make no difference. Padding of a convolution or under
    another mask counts: it is computed. Elementwise operations do not count. A jitted function named `flops_A_of_B`
    counts A for B numbers of its results, whatever it computes.

    Args:
      fn: any function that jax can trace.
      args: its arguments; arrays may be ShapeDtypeStructs.
    """
    return sum(by_scope(fn, *args, **kwargs).values())


def by_scope(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[Scope, int]:
    """The same by scope of names (Flax modules and `jax.named_scope`) that the operations are in."""
    with backend.target_platform("cpu"):  # the reference's products can be counted, a kernel's can't
        return dict(_count(jax.make_jaxpr(fn)(*args, **kwargs).jaxpr, ()))


def prune_function(fn: Callable[..., Any]) -> Callable[..., list[jax.Array]]:
    """The function without the operations that no result depends on, as a compiler drops them. Results are a list."""

    def call(*args: Any) -> list[jax.Array]:
        jaxpr = jax.make_jaxpr(fn)(*args)
        needed, _ = dce_jaxpr(jaxpr.jaxpr, [True] * len(jaxpr.jaxpr.outvars), instantiate=True)
        return jaxpr_as_fun(ClosedJaxpr(needed, jaxpr.consts))(*jax.tree.leaves(args))

    return call


def _count(jaxpr: Jaxpr, scope: Scope) -> collections.Counter[Scope]:
    return sum((_count_one(eqn, scope) for eqn in jaxpr.eqns), collections.Counter())


def _count_one(eqn: JaxprEqn, outer: Scope) -> collections.Counter[Scope]:
    scope = (*outer, *_names(eqn))
    match eqn.primitive.name:
        case "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            left = _shape(eqn.invars[0])
            out = _shape(eqn.outvars[0])
            return _one(scope, 2 * math.prod(out) * math.prod(left[i] for i in contracted))
        case "ragged_dot_general":  # one matrix for each row; a gradient's rows are summed group by group
            numbers = eqn.params["ragged_dot_dimension_numbers"]
            (contracted, _), _ = numbers.dot_dimension_numbers
            left = _shape(eqn.invars[0])
            out = _shape(eqn.outvars[0])
            met = out if numbers.rhs_group_dimensions else out[1:]
            return _one(scope, 2 * math.prod(met) * math.prod(left[i] for i in contracted))
        case "conv_general_dilated":
            out_features = eqn.params["dimension_numbers"].rhs_spec[0]
            kernel = _shape(eqn.invars[1])
            out = _shape(eqn.outvars[0])
            inserted = math.prod(eqn.params["lhs_dilation"])  # zeros between the inputs: the gradient of a stride
            return _one(scope, 2 * math.prod(out) * math.prod(kernel) // kernel[out_features] // inserted)
        case "fft":
            lengths = eqn.params["fft_lengths"]
            size = math.prod(lengths)
            transforms = math.prod(_shape(eqn.invars[0])[: -len(lengths)])
            passes = 5 if eqn.params["fft_type"] in (jax.lax.FftType.FFT, jax.lax.FftType.IFFT) else 2.5
            return _one(scope, round(transforms * passes * size * math.log2(size)))
        case "scan":
            once = _count(eqn.params["jaxpr"].jaxpr, scope)
            return collections.Counter({name: eqn.params["length"] * n for name, n in once.items()})
        case "cond":
            branches = [_count(branch.jaxpr, scope) for branch in eqn.params["branches"]]
            return max(branches, key=lambda branch: branch.total())
        case "jit" | "pjit" if stated := re.fullmatch(r"flops_(\d+)_of_(\d+)", eqn.params["name"]):
            size = sum(math.prod(_shape(out)) for out in eqn.outvars)  # more than stated where it is mapped
            return _one(scope, int(stated[1]) * size // int(stated[2]))
    # jit, remat, custom derivatives and the like hold one jaxpr.
    inner = [value for value in eqn.params.values() if isinstance(value, ClosedJaxpr | Jaxpr)]
    counts = (_count(value.jaxpr if isinstance(value, ClosedJaxpr) else value, scope) for value in inner)
    return sum(counts, collections.Counter())


def _one(scope: Scope, flops: int) -> collections.Counter[Scope]:
    """FLOPs of one product. Inside a scope `pairs_A_of_B`, A of every B pairs of a query and a key count."""
    for name in scope:
        if fraction := re.fullmatch(r"pairs_(\d+)_of_(\d+)", name):
            flops = flops * int(fraction[1]) // int(fraction[2])
    return collections.Counter({scope: flops})


def _names(eqn: JaxprEqn) -> Scope:
    """The names that an equation adds to its jaxpr's, without the names of transformations: jvp(name)."""
    return tuple(re.findall(r"[^/()]+(?=[/)]|$)", str(eqn.source_info.name_stack)))


def _shape(variable: Any) -> tuple[int, ...]:
    return variable.aval.shape
