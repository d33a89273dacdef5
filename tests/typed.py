"""Checks calls of the package against its signature, including shapes, by jaxtyping.

Functions inside functions are not checked: each would be decorated anew whenever the outer one is called, which took a
fifth of the time of tracing. Nor is anything in the slow tests, whose calls the fast ones make too: checks take a
quarter of the time of the others.
"""

from typing import Any

import jax
import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

# An int is a float; so is a traced number, if several runs share one program.
check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({float: float | int | jax.Array})))

PACKAGES = ("txjax.nn", "txjax.models", "txjax.objectives", "txjax.eval")
_jaxtyped = jaxtyping.jaxtyped


def _outer(**options: Any) -> Any:
    """The decorator that jaxtyping's import hook adds to all functions of a module."""
    decorate = _jaxtyped(**options)
    return lambda function: function if "<locals>" in function.__qualname__ else decorate(function)


def install() -> None:
    """From here on modules of `PACKAGES` are checked when they are imported."""
    jaxtyping.jaxtyped = _outer
    jaxtyping.install_import_hook(PACKAGES, "typed.check")
