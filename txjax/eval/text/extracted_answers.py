"""Answers that are read from a text, compared with the right ones as SQuAD's official script does."""

import collections
import dataclasses
import re
import string
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.data import Answers, Dataset
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, ID, digests
from txjax.objectives import Objective
from txjax.types import Batch, PyTree, config_field

_NEVER = -1e9
_NOTHING = (-np.inf, 0, 0)  # score, first and last token of a window without context


@dataclasses.dataclass
class ExtractedAnswers(Evaluator):
    """Exact match and F1 of the answers' texts (Rajpurkar et al. 2016, 6.1), by the rules of SQuAD's official script.

    The answer is the span of the context with the largest sum of both logits, in all windows of that context
    (`Answers.stride`). Texts are compared without case, punctuation and articles; of several right answers the best
    counts.

    Scores: `exact_match` and `f1`, shares of the questions (the script prints a hundred times these).

    Attributes:
      data: `Answers`.
      longest: tokens of an answer at most (Devlin et al. 2019: 30).
      null_threshold: a question has no answer if the [CLS]'s logits are larger than the best span's by more than this
        (Devlin et al. 2019, 4.3). If None, all questions have one, as in SQuAD 1.1.
    """

    longest: int = config_field(30, at_least=1)
    null_threshold: float | None = None

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("id", "tokens", "context", "segments")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not isinstance(self.data, Answers):
            raise UserError("eval.data", "Answers, which are texts", type(self.data).__name__)
        shape = getattr(outline(model, objective, self.data)[0], "shape", ())
        if len(shape) != 3 or shape[1] != 2:
            hint = "its head must be StartEnd()"
            raise UserError("config.model", "a model with output [B 2 L]", type(model).__name__, hint=hint)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective
        source = context.source

        def spans(variables: PyTree, batch: Batch) -> PyTree:
            logits = model.apply(variables, **objective.inputs(model, batch), train=False).astype(jnp.float32)
            span, score = best_in_context(logits, batch["context"] > 0, self.longest)
            return batch["id"], batch["segments"].any(1), span, score, logits[:, :, 0].sum(1)

        program = context.program(spans)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            best: dict[int, tuple[float, int, int]] = {}
            null: dict[int, float] = collections.defaultdict(lambda: np.inf)
            for rows in context.run_batches(program, variables, source, self.max_batches):
                for number, has_text, (first, last), score, absent in zip(*rows, strict=True):
                    if has_text:
                        record, begin = source.window(int(number))  # type: ignore[attr-defined]
                        span = (float(score), begin + first, begin + last) if score > _NEVER else _NOTHING
                        best[record] = max(best.get(record, _NOTHING), span)
                        null[record] = min(null[record], float(absent))
            pairs = []
            for record, (score, first, last) in best.items():
                question = source.question(record)  # type: ignore[attr-defined]
                limit = np.inf if self.null_threshold is None else self.null_threshold
                without = score == -np.inf or null[record] - score > limit
                pairs.append(("" if without else question.span(int(first), int(last)), question.answers))
            rows = {ID: np.array([*best]), GIVEN: digests([answers for _, answers in pairs]), **judge(pairs)}
            return self.keep_and_rescore(context, rows)

        return evaluate


def best_in_context(
    logits: Float[Array, "B 2 L"], context: Bool[Array, "B L"], longest: int
) -> tuple[Int[Array, "B 2"], Float[Array, "B"]]:
    """The first and the last token of the best span, counted from the first token of the context, and its score."""
    length = logits.shape[2]
    begin, end = (jnp.where(context, logits[:, side], _NEVER) for side in (0, 1))
    after = jnp.arange(length)[None, :] - jnp.arange(length)[:, None]
    allowed = (after >= 0) & (after < longest)
    sums = jnp.where(allowed[None], begin[:, :, None] + end[:, None, :], 4 * _NEVER).reshape(len(logits), -1)
    best = sums.argmax(-1)
    span = jnp.stack([best // length, best % length], 1) - context.argmax(-1)[:, None]
    return span.astype(jnp.int32), sums.max(-1)


def judge(pairs: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Float[np.ndarray, "N"]]:
    """The scores of each question, of an output and the right answers each; no right answers mean "no answer"."""
    measures = {"exact_match": _exact, "f1": _f1}
    return {
        name: np.array([_best(measure, output, answers) for output, answers in pairs])
        for name, measure in measures.items()
    }


def normalise_answer(text: str) -> str:
    """A text in lower case, without punctuation, articles and spaces that are too many."""
    plain = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", plain).split())


def _best(measure: Any, output: str, answers: Sequence[str]) -> float:
    known = [answer for answer in answers if normalise_answer(answer)] or [""]
    return max(measure(normalise_answer(output), normalise_answer(answer)) for answer in known)


def _exact(output: str, answer: str) -> float:
    return float(output == answer)


def _f1(output: str, answer: str) -> float:
    words = output.split(), answer.split()
    if not all(words):
        return float(output == answer)
    common = (collections.Counter(words[0]) & collections.Counter(words[1])).total()
    return 2 * common / (len(words[0]) + len(words[1]))
