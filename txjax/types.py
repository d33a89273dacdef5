"""Types that all of txjax shares: a batch, a mean, a training state, a user error.

Dimension letters, everywhere: B batch, L length, D width, H heads, K head size, F mlp, V vocab, N patches.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# It is in a file without JAX, and public here, beside what own components import.
from txjax.errors import UserError as UserError

__all__ = ["Mean", "ObjectiveOutput", "UserError", "config_field"]

Batch = dict[str, jax.Array]
PyTree = Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mean:
    """A sum and a count, so that averages stay exact over microbatches, padding, packing and hosts.

    Attributes:
      total: float32 [], the weighted sum.
      count: float32 [], the sum of the weights.
    """

    total: jax.Array
    count: jax.Array

    @staticmethod
    def of(values: jax.Array, weights: jax.Array | None = None) -> Mean:
        """The mean of `values` (any shape) with `weights` (the same shape). If None, all weights are 1."""
        values = values.astype(jnp.float32)
        if weights is None:
            return Mean(values.sum(), jnp.float32(values.size))
        weights = weights.astype(jnp.float32)
        return Mean((values * weights).sum(), weights.sum())

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.count + other.count)

    @property
    def value(self) -> jax.Array:
        """total / count, or 0 if count is 0; NaN if count is NaN."""
        empty = self.count == 0
        return jnp.where(empty, 0.0, self.total / jnp.where(empty, 1.0, self.count))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ObjectiveOutput:
    """The output of an objective for one (micro)batch.

    Attributes:
      losses: the terms of the loss. The loss that is minimised is the sum of their values; they are separate
        because terms may count different things (masked tokens, sentence pairs). Counts never depend on parameters.
      metrics: all other metrics, by name.
      model_state: the model's mutable collections after the call ({} where it has none).
    """

    losses: dict[str, Mean]
    metrics: dict[str, Mean]
    model_state: dict[str, PyTree] = dataclasses.field(default_factory=dict)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """The state that a train step reads and writes. It has no rng: a step's key is fold_in(key(seed), step).

    Attributes:
      step: int32 [], updates done.
      params: the trainable parameters; gradients and moments exist only for these.
      frozen: the other parameters, under the same paths.
      model_state: the model's mutable collections (BatchNorm statistics and the like).
      opt_state: the optimizer's state, sharded like `params`.
      skipped: int32 [2], updates dropped (`make_step`): in a row until now, and in all.
      ema: averages of `params`, float32, under the same paths; {} if the run has none.
    """

    step: jax.Array
    params: PyTree
    frozen: PyTree
    model_state: PyTree
    opt_state: PyTree
    skipped: jax.Array
    ema: PyTree = dataclasses.field(default_factory=dict)


def config_field(
    default: Any = dataclasses.MISSING,
    *,
    factory: Any = dataclasses.MISSING,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: tuple[Any, ...] | None = None,
    traced: bool = False,
    off: float | None = None,
    text: bool = False,
) -> Any:
    """A dataclass field with the range of its values, which `tree.check_fields` validates.

    Args:
      traced: whether the train step can be traced with the number as an argument, so that runs which differ in it can
        share one program (`train.traced`).
      off: the number at which the program omits an operation, so that it differs from the program for other numbers.
      text: whether a text in place of the component is the value of this field (`--config.init_from=runs/mae`).
    """
    limits = dict(above=above, at_least=at_least, at_most=at_most, below=below, choices=choices)
    metadata = {
        "limits": {k: v for k, v in limits.items() if v is not None},
        "traced": traced,
        "off": off,
        "text": text,
    }
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def is_on(value: float) -> bool:
    """Whether a number that disables something at 0 (`config_field(off=0)`) is not 0; True if it is traced."""
    return isinstance(value, jax.Array) or value != 0


def path_name(path: tuple[Any, ...]) -> str:
    """A jax key path as text: `layers/block/attention/query/kernel`."""
    return "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)


def flat_paths(tree: PyTree, is_leaf: Any = None) -> dict[str, Any]:
    """The leaves of `tree` by path name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    return {path_name(path): leaf for path, leaf in leaves}


def spec(shape: tuple[int, ...], dtype: str) -> jax.ShapeDtypeStruct:
    """One array of an example or a batch, without data."""
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))
