"""The loss of a decoder on a text as perplexity and bits per byte."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.by_example import by_example, rows_of
from txjax.eval.evaluation import add
from txjax.eval.evaluator import Context, EvalSetup, Evaluate, Evaluator, Program, check_shapes
from txjax.eval.results import COUNT, ID, Rows
from txjax.objectives import NextToken, Objective
from txjax.types import Batch, Mean, PyTree, config_field

NATS = "nats"
BYTES = "bytes"
COLUMNS = NATS, NATS + COUNT, BYTES


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

    def score_names(self, setup: EvalSetup, variables: PyTree) -> tuple[str, ...]:
        return tuple(scores(1.0, 1.0, 1.0))

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = self.objective
        sizes = self.data.tokenizer.token_bytes()  # type: ignore[attr-defined]

        def nats(variables: PyTree, batch: Batch) -> Mean:
            output = objective(model, variables, batch, jax.random.key(context.seed), train=False)
            (loss,) = output.losses.values()
            return loss

        def bytes_of(batch: Batch) -> jax.Array | None:
            if sizes is None:
                return None
            return jnp.where(batch["weights"] > 0, jnp.asarray(sizes)[batch["targets"]], 0).sum(1)

        def sums(variables: PyTree, batch: Batch) -> PyTree:
            size = bytes_of(batch)
            return nats(variables, batch), None if size is None else size.sum()

        def parts(variables: PyTree, batch: Batch) -> PyTree:
            return by_example(lambda batch: {NATS: nats(variables, batch)}, batch), bytes_of(batch)

        summed = context.program(sums)
        parted = context.program(parts)

        def run_program(program: Program, variables: PyTree) -> Iterator[Any]:
            return context.run_batches(program, variables, context.source, self.max_batches)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            if context.results is None:
                mean, size = add(run_program(summed, variables))
                size = None if size is None else float(size)
                return context.warn_if_empty(scores(float(mean.total), float(mean.count), size))
            batches, lengths = zip(*run_program(parted, variables), strict=True)
            rows = rows_of(batches, NATS)
            if sizes is not None:
                rows[BYTES] = np.concatenate(lengths)[rows[ID]]
            context.keep(rows)
            mean = add(whole for whole, *_ in batches)[NATS]
            size = None if sizes is None else sum(float(counts.sum()) for counts in lengths)
            return context.warn_if_empty(scores(float(mean.total), float(mean.count), size))

        return evaluate

    def rescore(self, rows: Rows) -> dict[str, float]:
        sums = {name: float(rows[name].sum(dtype=np.float64)) for name in COLUMNS if name in rows}
        return scores(sums[NATS], sums[NATS + COUNT], sums.get(BYTES)) if NATS in sums else {}


def scores(nats: float, count: float, size: float | None) -> dict[str, float]:
    """The scores of so many nats, of targets, and of bytes, if they are known; none of no target."""
    if not count:
        return {}
    loss = nats / count
    by_name = {"loss": loss, "perplexity": _exp(loss)}
    return by_name if size is None else by_name | {"bits_per_byte": nats / math.log(2) / max(size, 1)}


def _exp(nats: float) -> float:
    return math.exp(nats) if nats < 700 else math.inf
