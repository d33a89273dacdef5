"""Weights of a saved step that are not finite. A run never saves any; a file can have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from txjax.errors import UserError


def check_finite(workdir: Path, step: int, arrays: Mapping[str, Any]) -> None:
    """Raises UserError for the first array, by path, that has NaN or infinity. Whole numbers are not looked at.

    Args:
      workdir: the run's.
      arrays: jax arrays by path, on any devices.
    """
    floats = {path: x for path, x in arrays.items() if jnp.issubdtype(x.dtype, jnp.inexact)}
    finite = jax.device_get(_finite(floats))
    if bad := sorted(path for path, whole in finite.items() if not whole):
        hint = f"{len(bad)} arrays have some"
        raise UserError(f"step {step} of {workdir}", f"finite numbers in {bad[0]}", "NaN or infinity", hint=hint)


@jax.jit
def _finite(arrays: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """Whether all numbers of each array are finite, bool []."""
    return {path: jnp.isfinite(x).all() for path, x in arrays.items()}
