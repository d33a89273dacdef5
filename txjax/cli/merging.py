"""The weights of a step, and a model whose adapter is merged into its kernels: for `export` and `merge`."""

import dataclasses
from typing import Any

from txjax.types import PyTree


def saved_weights(store: Any, step: int) -> PyTree:
    """The variables of a step in host memory: the EMA of the weights if the run keeps one."""
    from txjax.checkpoint.stored_weights import stored_weights
    from txjax.train.state import variables
    from txjax.types import TrainState

    parts = stored_weights(store, step)
    return variables(TrainState(**parts, step=None, opt_state=None, skipped=None))  # type: ignore[arg-type]


def weights(store: Any, step: int) -> PyTree:
    """`saved_weights` with every kernel as float32."""
    from txjax.nn import dequantized

    found = saved_weights(store, step)
    return found | {"params": dequantized(found["params"])}


def without_storage(model: Any) -> Any:
    """The model of these variables: its kernels are float32."""
    return model if getattr(model, "storage", None) is None else model.clone(storage=None)


def without_adapter(experiment: Any, model: Any, variables: PyTree) -> tuple[Any, PyTree]:
    """The model with what merging leaves of its adapter (of most, nothing), and its variables.

    Args:
      model: whose kernels are float32.
    """
    import jax
    from flax.core import meta

    from txjax.axes import axes_of
    from txjax.nn.adapters import merge
    from txjax.parametrization import scaling_by_path
    from txjax.train.state import abstract_variables

    boxed = abstract_variables(dataclasses.replace(experiment, model=model))["params"]
    axes = jax.tree.map(axes_of, boxed, is_leaf=lambda node: isinstance(node, meta.AxisMetadata))
    rest, params = merge(model.adapter, variables["params"], axes, scaling_by_path(model.scalings()))
    return model.clone(adapter=rest), variables | {"params": params}
