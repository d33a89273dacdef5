"""Traces what evaluators compile before a run begins, so that errors of own code come before the first step."""

import contextlib
import dataclasses
from collections.abc import Callable

import jax
from jax.sharding import NamedSharding

from txjax.data import Source, eval_batches
from txjax.scoped import Scoped
from txjax.types import PyTree


@dataclasses.dataclass
class _Traced(BaseException):
    """The end of a trace. No `except Exception` in an evaluator's code stops it.

    Attributes:
      error: why the program can't be traced. If None, it can.
    """

    error: Exception | None


_tracing = Scoped("tracing", False)


def trace(evaluate: Callable[[PyTree, int], dict[str, float]], variables: PyTree) -> None:
    """Traces the first program that an evaluator passes to `Context.run_batches`, for a batch of its data.

    Computes nothing.

    The evaluator's code is called until it reads the program's first result. Its errors before that are none: variables
    have no values here.

    Args:
      evaluate: what its `start` returned.
      variables: of the model, abstract.

    Raises:
      Exception: what the program raised.
    """

    def until_traced(variables: PyTree) -> None:
        with contextlib.suppress(Exception):
            evaluate(variables, 0)

    try:
        with _tracing.within(True):
            jax.eval_shape(until_traced, variables)
    except _Traced as traced:
        if traced.error is not None:
            raise traced.error from None


def end_of_trace(
    program: Callable[[PyTree, PyTree], PyTree], variables: PyTree, source: Source, size: int, sharding: NamedSharding
) -> None:
    """Traces a program for a batch of `size` examples of a source, inside of `trace`; else does nothing."""
    if not _tracing.get():
        return
    with contextlib.closing(eval_batches(source, batch_size=1, threads=1, prefetch=1)) as batches:
        example = next(batches)
    batch = {key: jax.ShapeDtypeStruct((size, *x.shape[1:]), x.dtype, sharding=sharding) for key, x in example.items()}
    error = None
    try:
        jax.eval_shape(program, variables, batch)
    except Exception as caught:
        error = caught
    raise _Traced(error)
