"""Checks every call of the package against its signature, including shapes, by jaxtyping.

Functions inside functions are not checked: each would be decorated anew whenever the outer one is called, which took a
fifth of the time of tracing.
"""

from typing import Any

import jax
import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

# An int is a float; so is a traced number, if several runs share one program.
check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({float: float | int | jax.Array})))

_jaxtyped = jaxtyping.jaxtyped


def _outer(**options: Any) -> Any:
    """The decorator that jaxtyping's import hook adds to all functions of a module."""
    decorate = _jaxtyped(**options)
    return lambda function: function if "<locals>" in function.__qualname__ else decorate(function)


jaxtyping.jaxtyped = _outer
