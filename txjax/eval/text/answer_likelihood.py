"""How likely a model's answers are, next to how often the whole answer is right."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.by_example import content
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import COUNT, GIVEN, real_rows
from txjax.nn import Logits
from txjax.objectives import NextToken, Objective
from txjax.objectives.losses import correct, cross_entropy
from txjax.types import Batch, PyTree, config_field


@dataclasses.dataclass
class AnswerLikelihood(Evaluator):
    """Accuracy and log-likelihood of answers, which are the targets of weight above 0, in one forward pass.

    Each token of an answer is predicted from the right ones before it. All of an answer's predictions are right exactly
    if greedy decoding gives this answer and its end, by induction over its tokens: so `exact_match` needs no decoding.
    It is not linear in the likelihood: of n tokens, each right with probability p, all are with p^n (Schaeffer et al.
    2023, 2).

    Scores: `exact_match`, the share of answers that are right as a whole; `token_accuracy`; `loss` in nats a token;
    `answer_log_likelihood`, the mean of log p(answer | prompt) in nats. The end token counts as one of the answer's.

    Attributes:
      data: prompts with answers: `Completions` for a decoder, `Pairs` for an encoder-decoder.
      objective: the objective, which gives the model its inputs.
    """

    objective: NextToken = config_field(factory=NextToken)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return self.objective.required_keys

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        output, _ = outline(model, self.objective, self.data)
        if not isinstance(output, Logits):
            raise UserError("config.model", "a model with logits of the next token", type(model).__name__)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = self.objective

        def columns(variables: PyTree, batch: Batch) -> PyTree:
            logits = model.apply(variables, **objective.inputs(model, batch), train=False)
            nats, right = Logits.of(logits).reduce(_nats_and_hits, batch["targets"], chunk=objective.loss.chunk)
            answers = (batch["weights"] > 0).any(1)
            return by_answer(nats, right, batch["weights"]) | {"weights": answers, GIVEN: content(batch)}

        program = context.program(columns)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            batches = context.run_batches(program, variables, context.source, self.max_batches, objective.required_keys)
            rows = real_rows(batches)
            return self.keep_and_rescore(context, rows)

        return evaluate


def by_answer(
    nats: Float[Array, "B L"], right: Float[Array, "B L"], weights: Float[Array, "B L"]
) -> dict[str, Float[Array, "B"]]:
    """The scores of each answer, or sums with their counts (`eval.results`).

    Args:
      nats: the cross entropy of each target.
      right: 1 where the prediction is the target, else 0.
      weights: above 0 where the target is an answer's.
    """
    is_answer = weights > 0
    total = nats.sum(1, where=is_answer)
    tokens = is_answer.sum(1).astype(jnp.float32)
    return {
        "exact_match": (right > 0).all(1, where=is_answer).astype(jnp.float32),
        "token_accuracy": right.sum(1, where=is_answer),
        f"token_accuracy{COUNT}": tokens,
        "loss": total,
        f"loss{COUNT}": tokens,
        "answer_log_likelihood": -total,
    }


def _nats_and_hits(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
    return cross_entropy(logits, targets), correct(logits, targets)
