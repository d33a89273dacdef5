"""The loss of a decoder on a text as perplexity and bits per byte."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.eval.evaluation import add, mean_of
from txjax.eval.evaluator import Context, Evaluate, Evaluator, check_shapes
from txjax.objectives import NextToken, Objective
from txjax.types import Batch, PyTree, UserError, config_field


@dataclasses.dataclass
class Perplexity(Evaluator):
    """The loss of the next token, per token and per byte.

    Scores: `loss` in nats per token; `perplexity` = exp(loss); `bits_per_byte` = nats / (ln 2 * bytes), over the UTF-8
    bytes of the targets, so that models with different tokenizers can be compared. Special tokens add nats and no
    bytes. It is left out for tokenizers without a known number of bytes per token (WordPiece). Targets of weight 0 are
    left out.

    Attributes:
      objective: the objective, which computes the cross entropy.
    """

    objective: NextToken = config_field(factory=NextToken)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return self.objective.required_keys

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if getattr(self.data, "tokenizer", None) is None:
            raise UserError("eval.data", "text with a tokenizer", type(self.data).__name__)
        if self.data.spec() != train.spec():
            check_shapes(model, self.objective, self.data)

    def start(self, context: Context) -> Evaluate:
        model, objective = context.model, self.objective
        sizes = self.data.tokenizer.token_bytes()  # type: ignore[attr-defined]

        def sums(variables: PyTree, batch: Batch) -> PyTree:
            seen = objective(model, variables, batch, jax.random.key(context.seed), train=False)
            if sizes is None:
                return seen.losses, None
            return seen.losses, jnp.where(batch["weights"] > 0, jnp.asarray(sizes)[batch["targets"]], 0).sum()

        program = context.program(sums)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            losses, size = add(context.over(program, variables, context.source, self.max_batches))
            (nats,) = losses.values()
            scores = {"loss": mean_of(nats), "perplexity": _exp(mean_of(nats))}
            return (
                scores if size is None else scores | {"bits_per_byte": float(nats.total / math.log(2) / max(size, 1))}
            )

        return evaluate


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf
