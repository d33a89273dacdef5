"""Checks calls of the package against its signature, including shapes, by jaxtyping.

Functions without an array in their signature are left to mypy: checks take a seventh of the time of tracing, and would
take a third with them. Functions inside functions are not checked: each would be decorated anew whenever the outer one
is called. Nor is anything in the slow tests, whose calls the fast ones make too.
"""

from typing import Any

import jax
import jaxtyping
from beartype import BeartypeConf, FrozenDict, beartype

# An int is a float; so is a traced number, if several runs share one program.
check = beartype(conf=BeartypeConf(hint_overrides=FrozenDict({float: float | int | jax.Array})))

PACKAGES = ("txjax.nn", "txjax.models", "txjax.objectives", "txjax.eval")
_jaxtyped = jaxtyping.jaxtyped


def _has_arrays(function: Any) -> bool:
    """Whether a signature, or a class of data, has an array with a shape."""
    return any("jaxtyping." in str(hint) for hint in getattr(function, "__annotations__", {}).values())


def _outer(**options: Any) -> Any:
    """The decorator that jaxtyping's import hook adds to all functions and classes of a module."""
    decorate = _jaxtyped(**options)

    def choose(function: Any) -> Any:
        return decorate(function) if "<locals>" not in function.__qualname__ and _has_arrays(function) else function

    return choose


def install() -> None:
    """From here on modules of `PACKAGES` are checked when they are imported."""
    jaxtyping.jaxtyped = _outer
    jaxtyping.install_import_hook(PACKAGES, "helpers.shape_checks.check")
