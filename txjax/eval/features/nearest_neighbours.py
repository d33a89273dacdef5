"""Nearest-neighbor classification with frozen features, without training."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.eval.evaluator import Context
from txjax.eval.features.frozen_features import Frozen, features_of
from txjax.eval.results import GIVEN, real_rows
from txjax.types import Batch, PyTree, config_field


@dataclasses.dataclass
class NearestNeighbours(Frozen):
    """Weighted nearest neighbours (Wu et al. 2018, section 3.4).

    The `k` training examples of the largest cosine similarity s vote for their classes with weight
    exp(s / temperature).

    Scores: `accuracy`.

    Attributes:
      k: the number of neighbors that vote.
      temperature: the temperature of the votes; the smaller, the less weight for farther neighbors.
    """

    k: int = config_field(20, at_least=1)
    temperature: float = config_field(0.07, above=0)

    def score(
        self, context: Context, variables: PyTree, features: Float[np.ndarray, "N D"], labels: Int[np.ndarray, "N"]
    ) -> dict[str, float]:
        model = context.model
        objective = context.objective
        classes = int(labels.max()) + 1
        k = min(self.k, len(labels))

        def correct(inputs: PyTree, batch: Batch) -> PyTree:
            variables, (references, known) = inputs
            x = features_of(model, variables, objective.inputs(model, batch))
            strength = votes(x, references, known, classes, k, self.temperature)
            right = strength.argmax(-1) == batch["label"]
            return {GIVEN: batch["label"], "accuracy": right, "weights": batch["weights"]}

        program = context.program(correct, classes, k)
        inputs = (variables, context.put((features, labels)))
        rows = real_rows(context.run_batches(program, inputs, context.source, self.max_batches))
        return self.keep_and_rescore(context, rows)


def votes(
    x: Float[Array, "B D"],
    references: Float[Array, "N D"],
    labels: Int[Array, "N"],
    classes: int,
    k: int,
    temperature: float,
) -> Float[Array, "B {classes}"]:
    """The votes of the k nearest references for each class, up to a factor per row."""
    similarity = _unit(x) @ _unit(references).T
    nearest, indices = jax.lax.top_k(similarity, k)
    strength = jnp.exp((nearest - nearest[:, :1]) / temperature)  # 1 for the nearest, so that none overflows
    return jnp.einsum("bk,bkc->bc", strength, jax.nn.one_hot(labels[indices], classes))


def _unit(x: Float[Array, "N D"]) -> Float[Array, "N D"]:
    return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), 1e-12)
