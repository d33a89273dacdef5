"""Adapters merged into the kernels that they adapt."""

from collections.abc import Callable

from flax import traverse_util

from txjax.axes import Axes
from txjax.nn.adapters.adapter import Adapter
from txjax.parametrization import Scaling
from txjax.types import PyTree, flat_paths


def merge(
    adapter: Adapter, params: PyTree, axes: PyTree, scaling: Callable[[str], Scaling | None]
) -> tuple[Adapter | None, PyTree]:
    """What is left of the adapter (of most, nothing), and the parameters of the model with it.

    The model's outputs are the adapted ones.

    Args:
      params: the adapted model's, unboxed.
      axes: their logical axes.
      scaling: of a parameter by its path.

    Raises:
      UserError: an adapter that is no change of kernels.
    """
    names = flat_paths(axes, is_leaf=lambda node: isinstance(node, Axes))
    rest, flat = adapter.merge(flat_paths(params), names, scaling)
    return rest, traverse_util.unflatten_dict(flat, sep="/")
