"""Every attention kernel against the float32 reference, forward and backward, in bfloat16; and its time."""

import functools
import importlib.util
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from results import Book, Record, Unavailable

from txjax import backend
from txjax.nn import Mask
from txjax.nn.kernels.attention_dispatch import KERNELS
from txjax.nn.kernels.reference_attention import reference_attention

TITLE = (
    "Kernels of attention in bfloat16: largest error of the output and of the three gradients, over the largest "
    "magnitude, against the reference in float32; and of the reference in bfloat16"
)
NEEDS = {"splash": "tpu", "cudnn": "gpu", "packed": "gpu"}
ALLOWED = 2.0  # times the error of the reference in bfloat16
LEAST = 0.02  # errors below this always pass
# Length, heads, heads of keys, and the size of a head.
SHAPES = {"full heads": (2048, 16, 16, 64), "grouped heads": (2048, 16, 4, 128), "odd length": (197, 12, 12, 64)}
TINY = {"grouped heads": (128, 4, 2, 32)}


def run(book: Book, tiny: bool) -> None:
    for kernel in ("reference", *KERNELS):
        for how, (length, *sizes) in (TINY if tiny else SHAPES).items():
            batch = 2 if tiny else 4
            for name, mask in masks(batch, length, tiny).items():
                compare = functools.partial(_compare, kernel, mask, length, batch, sizes, tiny)
                book.case(f"{kernel}, {name}, {how}", compare)


def masks(batch: int, length: int, tiny: bool) -> dict[str, Mask]:
    """The masks by their names; the tiny run has one."""
    segments = jnp.asarray(np.sort(np.random.default_rng(0).integers(1, 5, (batch, length)), -1), jnp.int32)
    if tiny:
        return {"causal window segments": Mask(True, length // 8, segments, segments)}
    return {
        "none": Mask(),
        "causal": Mask(causal=True),
        "causal window": Mask(causal=True, window=length // 8),
        "window": Mask(window=length // 8),
        "segments": Mask.within(segments),
        "causal segments": Mask.within(segments, causal=True),
    }


def _compare(kernel: str, mask: Mask, length: int, batch: int, sizes: Sequence[int], tiny: bool) -> Record:
    heads, groups, channels = sizes
    shapes = [(batch, length, count, channels) for count in (heads, groups, groups, heads)]
    query, key, value, weights = (
        jax.random.normal(jax.random.key(i), shape, jnp.bfloat16) for i, shape in enumerate(shapes)
    )
    attend = _kernel(kernel, query, key, mask)
    exact = [x.astype(jnp.float32) for x in (query, key, value)]
    with jax.default_matmul_precision("highest"):
        reference = _graded(reference_attention)(*exact, weights, mask)
    given = query, key, value, weights, mask
    usual = _errors(_graded(reference_attention)(*given), reference)
    program = _graded(attend)
    found = _errors(program(*given), reference)
    right = all(error <= max(ALLOWED * other, LEAST) for error, other in zip(found, usual, strict=True))
    interpreted = kernel == "splash" and backend.platform() != "tpu"
    seconds = [] if interpreted else [_seconds(program, given) for _ in range(2 if tiny else 10)]
    milliseconds = 1e3 * statistics.median(seconds) if seconds else None
    return {"right": right, "errors": found, "reference": usual, "ms": milliseconds, "interpreted": interpreted}


def _kernel(name: str, query: jax.Array, key: jax.Array, mask: Mask) -> Callable[..., jax.Array]:
    """The kernel. Raises Unavailable if it does not run here, or does not support this call."""
    if name == "reference":
        return reference_attention
    attend, refuses = KERNELS[name]
    if name == "tokamax" and importlib.util.find_spec("tokamax") is None:
        raise Unavailable("tokamax is not installed")
    if name == "splash" and backend.platform() == "cpu":
        return functools.partial(attend, interpret=True)
    if NEEDS.get(name, backend.platform()) != backend.platform():
        raise Unavailable(f"needs a {NEEDS[name].upper()}")
    if (why := refuses(query, key, mask)) is not None:
        raise Unavailable(f"goes to the reference: {why}")
    return attend


def _graded(attend: Callable[..., jax.Array]) -> Callable[..., Any]:
    """The output, and the gradients of its product with some weights."""

    def loss(query: Any, key: Any, value: Any, weights: Any, mask: Mask) -> Any:
        out = attend(query, key, value, mask)
        return (out.astype(jnp.float32) * weights.astype(jnp.float32)).sum(), out

    def both(*given: Any) -> Any:
        gradients, out = jax.grad(loss, (0, 1, 2), has_aux=True)(*given)
        return out, *gradients

    return jax.jit(both)


def _errors(found: Any, reference: Any) -> list[float]:
    pairs = zip(found, reference, strict=True)
    return [float(jnp.abs(x.astype(jnp.float32) - y).max() / jnp.abs(y).max()) for x, y in pairs]


def _seconds(program: Callable[..., Any], given: Any) -> float:
    began = time.perf_counter()
    jax.block_until_ready(program(*given))
    return time.perf_counter() - began


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["kernel, mask, shape", "output", "queries", "keys", "values", "right", "ms, forward and backward"]
    rows = []
    for name, record in book.done.items():
        found = record.get("result")
        if found is None:
            rows.append([name, *[None] * 4, record.get("unavailable") or "failed", None])
            continue
        errors = [f"{a:.4f} ({b:.4f})" for a, b in zip(found["errors"], found["reference"], strict=True)]
        milliseconds = "interpreted" if found["ms"] is None else f"{found['ms']:.2f}"
        rows.append([name, *errors, "yes" if found["right"] else "NO", milliseconds])
    return columns, rows
