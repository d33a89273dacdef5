"""The weights of saved steps in host memory: of one step, and the mean of several."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax.sharding import Sharding

from txjax.checkpoint.finite import check_finite
from txjax.checkpoint.store import Store
from txjax.errors import UserError
from txjax.types import PyTree, flat_paths

_PART = "weights/"
_EMPTY: dict[str, Any] = {"params": {}, "frozen": {}, "model_state": {}}  # a checkpoint has no empty trees


def stored_weights(store: Store, step: int, sharding: Sharding | None = None) -> dict[str, PyTree]:
    """The weights of a step: `params`, `frozen`, `model_state` and, if the run keeps averages, `ema`.

    The caller verifies the digests.

    Args:
      sharding: of each array. If None, they are in the memory of the host.

    Raises:
      UserError: an array has NaN or infinity.
    """
    shapes = {
        path: jax.ShapeDtypeStruct(shape, dtype, sharding=sharding or _host())
        for path, (shape, dtype) in _arrays(store, step).items()
    }
    weights = store.load_some(step, traverse_util.unflatten_dict(shapes, sep="/"))["weights"]
    check_finite(store.folder.parent, step, flat_paths(weights))
    return _EMPTY | weights


def inference_variables(store: Store, step: int, sharding: Sharding) -> dict[str, PyTree]:
    """The model's variables at a step, as `model.apply` takes them: averages of weights where the run keeps them.

    The caller verifies the digests.

    Args:
      sharding: of each array.

    Raises:
      UserError: an array has NaN or infinity.
    """
    weights = stored_weights(store, step, sharding)
    parts = (weights.get("ema") or weights["params"], weights["frozen"])
    params = {path: x for part in parts for path, x in traverse_util.flatten_dict(part).items()}
    return {"params": traverse_util.unflatten_dict(params), **weights["model_state"]}


def mean_weights(store: Store, steps: Sequence[int]) -> dict[str, PyTree]:
    """The mean of each array of the weights over some steps (Vaswani et al. 2017, 6.1), summed in float64.

    So `ema` and running statistics are averaged, too. Whole numbers are the last step's.

    Raises:
      UserError: a step has other arrays than the last one.
    """
    arrays = _arrays(store, steps[-1])
    for step in steps:
        _check_same(step, _arrays(store, step), steps[-1], arrays)
    totals: dict[str, np.ndarray] = {}
    for step in steps:
        for path, x in flat_paths(stored_weights(store, step)).items():
            adds = path in totals and jnp.issubdtype(x.dtype, jnp.inexact)
            totals[path] = np.asarray(x, np.float64) + (totals[path] if adds else 0.0)
    means = {}
    for path, total in totals.items():
        dtype = jnp.dtype(arrays[_PART + path][1])
        mean = total / len(steps) if jnp.issubdtype(dtype, jnp.inexact) else total
        means[path] = jax.device_put(mean.astype(dtype), _host())
    return _EMPTY | traverse_util.unflatten_dict(means, sep="/")


def _arrays(store: Store, step: int) -> dict[str, tuple[list[int], str]]:
    """The shape and dtype of each array of a step's weights, by path."""
    return {path: tuple(spec) for path, spec in store.record(step)["arrays"].items() if path.startswith(_PART)}


def _check_same(step: int, specs: dict[str, Any], last: int, wanted: dict[str, Any]) -> None:
    """Raises UserError, which names the first difference, unless two steps have the same arrays."""
    for path in sorted(specs.keys() | wanted.keys()):
        here, there = (
            f"{spec[1]}{list(spec[0])}" if spec else "no such array" for spec in (specs.get(path), wanted.get(path))
        )
        if here != there:
            hint = "the config was changed between them"
            raise UserError(f"checkpoint {step}", f"{path} as in step {last}, {there}", here, hint=hint)


def _host() -> jax.sharding.SingleDeviceSharding:
    return jax.sharding.SingleDeviceSharding(jax.local_devices(backend="cpu")[0])
