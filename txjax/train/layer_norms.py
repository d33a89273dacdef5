"""Norms of parameters, gradients and updates by layer, which the step computes where the log asks for them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from txjax.axes import STACKED, Axes
from txjax.experiment import Experiment
from txjax.optim.layer_decay import kind_number, stack_path
from txjax.sharding import is_axes
from txjax.types import PyTree, flat_paths

Norms = dict[str, jax.Array]


def norms_due(experiment: Experiment, step: Any) -> Any:
    """Whether the row of a step, int or int32 [], has the norms: bool, or bool []."""
    every = experiment.layer_norms_every_steps
    return every is not None and step % every == 0


def norm_metrics(
    experiment: Experiment, step: jax.Array, trees: Mapping[str, PyTree], axes: PyTree
) -> dict[str, Norms]:
    """The metric `norms` of a step: `layer_norms` if its row has them; else zeros, and nothing is computed.

    {} if no row has them.

    Args:
      step: int32 [], the step of the row.
    """
    if experiment.layer_norms_every_steps is None:
        return {}

    def norms() -> Norms:
        return layer_norms(trees, axes)

    def zeros() -> Norms:
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(norms))

    return {"norms": jax.lax.cond(norms_due(experiment, step), norms, zeros)}


def layer_norms(trees: Mapping[str, PyTree], axes: PyTree) -> Norms:
    """The Euclidean norms of each layer's arrays, by the name of the tree and the place in it: `gradient_norm/layers`.

    Args:
      trees: by name, each with arrays under the paths of parameters.
      axes: the logical axes of all parameters.
    """
    by_path = flat_paths(axes, is_leaf=is_axes)
    return {
        f"{name}/{place}": norm for name, tree in trees.items() for place, norm in _tree_norms(tree, by_path).items()
    }


def _tree_norms(tree: PyTree, axes: Mapping[str, Axes]) -> Norms:
    """The norms by place.

    Returns:
      float32 [layers] for a stack, under the path of the stack; float32 [1] for the arrays of any other module, under
      its path. Layers that take turns (`nn.PeriodicStack`) are in the order of the forward pass.
    """
    squares: dict[str, dict[int, jax.Array]] = {}  # by place, then by the layer's number in its period
    for path, array in flat_paths(tree).items():
        layers = [i for i, name in enumerate(axes[path]) if name == STACKED]
        place = f"{stack_path(path)}{STACKED}" if layers else path.rpartition("/")[0] or path
        others = [i for i in range(array.ndim) if i not in layers]
        total = jnp.square(array.astype(jnp.float32)).sum(others).reshape(-1)
        kinds = squares.setdefault(place, {})
        kind = kind_number(path)
        kinds[kind] = kinds[kind] + total if kind in kinds else total
    by_place = {place: [kinds[kind] for kind in sorted(kinds)] for place, kinds in squares.items()}
    return {place: jnp.sqrt(jnp.stack(kinds, axis=-1).reshape(-1)) for place, kinds in by_place.items()}


def norms_by_layer(norms: Mapping[str, Float[np.ndarray, "N"]]) -> dict[str, float]:
    """The numbers of a row: `gradient_norm/layer_3`, `gradient_norm/decoder/layer_0`, `gradient_norm/embed`."""
    row: dict[str, float] = {}
    for name, values in norms.items():
        stack = name.removesuffix(STACKED)
        row |= {name if stack == name else f"{stack}layer_{i}": float(value) for i, value in enumerate(values)}
    return row
