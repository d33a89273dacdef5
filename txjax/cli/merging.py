"""The weights of a step, and a model whose adapter is merged into its kernels: for `export` and `merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txjax.types import PyTree


def saved_weights(store: Any, step: int) -> PyTree:
    """The variables of a step in host memory: the EMA of the weights if the run keeps one."""
    from txjax.checkpoint.stored_weights import stored_weights
    from txjax.train.state.state import model_variables
    from txjax.types import TrainState

    parts = stored_weights(store, step)
    return model_variables(TrainState(**parts, step=None, opt_state=None, skipped=None))  # type: ignore[arg-type]


def weights(store: Any, step: int) -> PyTree:
    """`saved_weights` with every kernel as float32."""
    from txjax.nn import dequantized

    stored = saved_weights(store, step)
    return stored | {"params": dequantized(stored["params"])}


def trained_paths(store: Any, step: int) -> list[str]:
    """The paths of the parameters that a step has as trained ones; the others are frozen."""
    start = "weights/params/"
    return [path.removeprefix(start) for path in store.record(step)["arrays"] if path.startswith(start)]


def without_storage(model: Any) -> Any:
    """The model of these variables: its kernels are float32."""
    return model if getattr(model, "storage", None) is None else model.clone(storage=None)


def without_adapter(experiment: Any, model: Any, variables: PyTree) -> tuple[Any, PyTree]:
    """The model with what merging leaves of its adapter (of most, nothing), and its variables.

    Args:
      experiment: the run's, or the model of a workdir that has no run.
      model: whose kernels are float32.
    """
    from flax import traverse_util

    from txjax.cli.model_axes import model_axes
    from txjax.nn.adapters import merge
    from txjax.parametrization import scaling_by_path
    from txjax.types import flat_paths

    flat = model_axes(experiment, model, flat_paths(variables["params"]))
    axes = traverse_util.unflatten_dict(flat, sep="/")
    rest, params = merge(model.adapter, variables["params"], axes, scaling_by_path(model.scalings()))
    return model.clone(adapter=rest), variables | {"params": params}
