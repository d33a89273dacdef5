"""Objectives whose loss compares the examples of a batch with each other, exact in microbatches too."""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, UInt32

from txjax.objectives.base import AuxOutputs, Objective
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree

Rows = dict[str, Float[Array, "B"]]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Others:
    """The examples of a whole batch, for the loss of one of its microbatches.

    Attributes:
      features: a tree of [P M ...], what the M examples of each of the P microbatches are compared by.
      part: int32 [], the number of this microbatch.
    """

    features: PyTree
    part: Int[Array, ""]

    def joined(self, features: PyTree) -> PyTree:
        """The whole batch [P*M ...]: these features [M ...] in their place, which have a gradient, and the others'."""

        def place(whole: jax.Array, rows: jax.Array) -> jax.Array:
            return whole.at[self.part].set(rows).reshape(-1, *rows.shape[1:])

        return jax.tree.map(place, jax.lax.stop_gradient(self.features), features)

    def rows(self, values: Float[Array, "N"]) -> Float[Array, "B"]:
        """The values of this microbatch, from the values of the whole batch."""
        parts = jax.tree.leaves(self.features)[0].shape[0]
        return values.reshape(parts, -1)[self.part]


class ComparingObjective(Objective, abc.ABC):
    """Base of objectives whose loss of an example depends on the other examples of its batch.

    Such a loss is no sum over examples that could be taken in parts. So a step in microbatches first encodes all of
    them without gradients, and then takes each one's gradient of the whole batch's loss, in which the features of the
    others are constants (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup").
    The gradients add up to the gradient of the whole batch. An example of weight 0 is compared with none.
    """

    @abc.abstractmethod
    def encode(
        self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool
    ) -> tuple[PyTree, AuxOutputs]:
        """What examples are compared by, a tree of [B ...] with their weights, and the model's auxiliary outputs."""

    @abc.abstractmethod
    def compare(self, features: PyTree) -> tuple[Rows, Rows, Float[Array, "B"]]:
        """The terms of the loss and the metrics of each example among the others, and the examples' weights."""

    def __call__(
        self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool, others: Others | None = None
    ) -> ObjectiveOutput:
        """The losses and metrics of a batch.

        Args:
          others: the batch that this is a microbatch of. The values are then of its own examples; the gradient of a
            term's total is the gradient of the whole batch's total. If None, it is the whole batch.
        """
        features, aux = self.encode(model, variables, batch, key, train)
        losses, metrics, weights = self.compare(features if others is None else others.joined(features))

        def mean(values: Float[Array, "B"]) -> Mean:
            return Mean.of(values, weights) if others is None else _mean_of_part(values, weights, others)

        return aux.outcome(jax.tree.map(mean, losses), jax.tree.map(mean, metrics))


def _mean_of_part(values: Float[Array, "B"], weights: Float[Array, "B"], others: Others) -> Mean:
    """The mean over a microbatch, whose total has the gradient of the whole batch's."""
    total = (values * weights).sum()
    part = jax.lax.stop_gradient(others.rows(values * weights).sum() - total)
    return Mean(total + part, others.rows(weights).sum())


def row_digests(rows: Int[Array, "B L"]) -> UInt32[Array, "B"]:
    """A number for each row, equal for equal rows. Zeros at the end of a row change nothing."""
    factors = jnp.arange(1, 1 + rows.shape[1], dtype=jnp.uint32) * jnp.uint32(2654435761) | 1
    return (rows.astype(jnp.uint32) * factors[None]).sum(1, dtype=jnp.uint32)
