"""Metrics of generated texts: sacrebleu's (Post 2018), and those of texts that are classes or numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from txjax.errors import UserError, near_misses, require
from txjax.eval.classification.predictions import CLASSES, NUMBERS
from txjax.eval.results import Rows

SACREBLEU = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER"}  # the classes of sacrebleu.metrics
NO_NUMBER = -1.0  # what a text that is no number counts as (in the authors' code of T5, too)
EXACT = "exact_match"


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return NO_NUMBER
    return value if np.isfinite(value) else NO_NUMBER


def _right(targets: list[str], outputs: list[str]) -> np.ndarray:
    return np.array([target == output for target, output in zip(targets, outputs, strict=True)])


def _classes(targets: list[str], outputs: list[str]) -> np.ndarray:
    return np.unique([targets, outputs], return_inverse=True)[1].reshape(2, -1).T


def _numbers(targets: list[str], outputs: list[str]) -> np.ndarray:
    return np.array([[*map(_number, texts)] for texts in (targets, outputs)]).T


# What a metric reads of texts without the spaces around them, with a row for each example, and the metric of that.
PLAIN: dict[str, tuple[Callable[[list[str], list[str]], np.ndarray], Callable[[np.ndarray], float]]] = {
    EXACT: (_right, lambda right: float(right.mean())),
    "matthews": (_classes, lambda pairs: CLASSES["matthews"](*pairs.T)),
    "pearson": (_numbers, lambda pairs: NUMBERS["pearson"](*pairs.T)),
    "spearman": (_numbers, lambda pairs: NUMBERS["spearman"](*pairs.T)),
}
METRICS = (*SACREBLEU, *PLAIN)


def check_metrics(names: Sequence[str]) -> None:
    """Raises UserError, for the field `eval.metrics`, if there are none, one is unknown, or sacrebleu is missing."""
    if not names:
        raise UserError("eval.metrics", f"some of {', '.join(METRICS)}", names)
    for name in names:
        if name not in METRICS:
            raise UserError("eval.metrics", f"some of {', '.join(METRICS)}", name, near_misses(name, METRICS))
    if set(names) & set(SACREBLEU):
        require("sacrebleu", "sacrebleu", "eval.metrics", extra="text")


def compare(outputs: Sequence[str], targets: Sequence[str], names: Sequence[str]) -> tuple[dict[str, float], list[str]]:
    """The metrics of texts by name, and a line for each: sacrebleu's own, which has the signature.

    BLEU, chrF and TER are from 0 to 100 (TER may be more) and have sacrebleu's defaults. The others are without the
    spaces around a text: `exact_match` is the share of outputs that equal their target, `matthews` the correlation of
    texts that are classes; `pearson` and `spearman` are of numbers, and an output that is none counts as -1.

    Args:
      outputs, targets: of the same examples.
    """
    scores: dict[str, float] = {}
    lines = []
    for name in names:
        if name in PLAIN:
            read, metric = PLAIN[name]
            scores[name] = metric(read(*_strip_texts(targets, outputs)))
            lines.append(f"{name} = {scores[name]:.4f}")
            continue
        scorer = _sacrebleu(name)
        score = scorer.corpus_score(outputs, [targets])
        scores[name] = float(score.score)
        lines.append(score.format(signature=scorer.get_signature().format()))
    return scores, lines


def statistics(outputs: Sequence[str], targets: Sequence[str], names: Sequence[str]) -> Rows:
    """What each metric needs of each example, by its name: arrays [N ...], of any rows of which `rescore_metrics` has
    the metrics. sacrebleu's are counts of n-grams or edits, which it sums over examples."""
    return {
        name: PLAIN[name][0](*_strip_texts(targets, outputs))
        if name in PLAIN
        else np.array(_sacrebleu(name)._extract_corpus_statistics(outputs, [targets]), np.float64)
        for name in names
    }


def rescore_metrics(rows: Rows, names: Sequence[str]) -> dict[str, float]:
    """The metrics by name, from the statistics of examples."""
    return {
        name: PLAIN[name][1](rows[name])
        if name in PLAIN
        else float(_sacrebleu(name)._compute_score_from_stats(rows[name].sum(0).tolist()).score)
        for name in names
    }


def _sacrebleu(name: str) -> Any:
    """sacrebleu's metric. That a score follows from sums of statistics is private in it."""
    import sacrebleu.metrics  # an extra

    return getattr(sacrebleu.metrics, SACREBLEU[name])()


def _strip_texts(targets: Sequence[str], outputs: Sequence[str]) -> tuple[list[str], list[str]]:
    return [text.strip() for text in targets], [text.strip() for text in outputs]
