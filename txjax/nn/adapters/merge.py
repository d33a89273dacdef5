"""Adapters merged into the kernels that they adapt."""

from collections.abc import Callable

from flax import traverse_util

from txjax.axes import Axes
from txjax.nn.adapters.adapter import Adapter
from txjax.parametrization import Scaling
from txjax.types import PyTree, flat_paths


def merge(adapter: Adapter, params: PyTree, axes: PyTree, scaling: Callable[[str], Scaling | None]) -> PyTree:
    """The parameters of the model without the adapter whose outputs are those of the adapted model.

    Args:
      params: the adapted model's, unboxed.
      axes: their logical axes.
      scaling: of a parameter by its path.

    Raises:
      UserError: an adapter that is no change of kernels.
    """
    flat, names = flat_paths(params), flat_paths(axes, is_leaf=lambda node: isinstance(node, Axes))
    step = f"/{adapter.name}/"
    for module in {path.partition(step)[0] for path in flat if step in path}:
        inside = [path.removeprefix(f"{module}/") for path in flat if path.startswith(f"{module}/")]
        new = adapter.merged(
            {path: flat.pop(f"{module}/{path}") for path in inside},
            {path: names[f"{module}/{path}"] for path in inside},
            scaling(module) or Scaling(),
        )
        flat |= {f"{module}/{path}": x for path, x in new.items()}
    return traverse_util.unflatten_dict(flat, sep="/")
