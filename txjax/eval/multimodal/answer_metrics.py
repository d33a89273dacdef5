"""How right a written answer is: equal to the stored one, or to those of several people."""

from collections.abc import Callable, Sequence

import numpy as np

from txjax.data import Turn
from txjax.errors import UserError, near_misses
from txjax.eval.results import COUNT, Rows
from txjax.eval.text.extracted_answers import normalise_answer

ENOUGH = 3  # people with whose answer a wholly right one agrees


def exact_match(output: str, turn: Turn) -> float:
    """1 if a text equals the answer of the turn, without the spaces around both, else 0."""
    return float(output.strip() == (turn.answer or "").strip())


def vqa_accuracy(output: str, turn: Turn) -> float:
    """min(people who gave this answer / 3, 1) (Antol et al. 2015, section 3); `exact_match` without their answers.

    Texts are compared without case, punctuation and articles.
    """
    if not turn.references:
        return exact_match(output, turn)
    written = normalise_answer(output)
    agreeing = sum(normalise_answer(reference) == written for reference in turn.references)
    return min(agreeing / ENOUGH, 1.0)


METRICS: dict[str, Callable[[str, Turn], float]] = {"exact_match": exact_match, "vqa_accuracy": vqa_accuracy}


def check_metrics(names: Sequence[str]) -> None:
    """Raises UserError, for the field `eval.metrics`, if there are none or one is unknown."""
    for name in names or ("",):
        if name not in METRICS:
            raise UserError("eval.metrics", f"some of {', '.join(METRICS)}", name, near_misses(name, METRICS))


def score_answers(outputs: Sequence[str], turns: Sequence[Turn], metrics: Sequence[str], ending: str = "") -> Rows:
    """The scores of each answer: columns [N] of all, METRIC, and of the questions of each kind, METRIC_KIND.

    A column of a kind is 0 at other questions, and METRIC_KIND_count says which ones it has (`results.means`).

    Args:
      turns: the questions with their right answers.
      ending: of the names of all scores.
    """
    columns: Rows = {}
    kinds = sorted({turn.kind for turn in turns} - {""})
    for metric in metrics:
        values = [METRICS[metric](output, turn) for output, turn in zip(outputs, turns, strict=True)]
        scores = np.array(values, np.float64)
        columns[f"{metric}{ending}"] = scores
        for kind in kinds:
            name = f"{metric}_{kind}{ending}"
            of_kind = np.array([turn.kind == kind for turn in turns], np.float64)
            columns |= {name: scores * of_kind, name + COUNT: of_kind}
    return columns
