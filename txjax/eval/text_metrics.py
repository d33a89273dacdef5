"""Metrics of generated texts: sacrebleu's (Post 2018), and those of texts that are classes or numbers."""

from collections.abc import Callable, Sequence

import numpy as np

from txjax.eval.predictions import CLASSES, NUMBERS
from txjax.types import UserError, near_misses, require

SACREBLEU = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER"}  # the classes of sacrebleu.metrics
NO_NUMBER = -1.0  # what a text that is no number counts as (in the authors' code of T5, too)
EXACT = "exact_match"


def _same(targets: np.ndarray, outputs: np.ndarray) -> float:
    return float(np.mean(outputs == targets))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return NO_NUMBER
    return value if np.isfinite(value) else NO_NUMBER


def _numbers(metric: Callable[[np.ndarray, np.ndarray], float]) -> Callable[[np.ndarray, np.ndarray], float]:
    return lambda targets, outputs: metric(*(np.array([*map(_number, texts)]) for texts in (targets, outputs)))


# Of arrays of targets and outputs, without the spaces around them.
PLAIN = {EXACT: _same, "matthews": CLASSES["matthews"]} | {name: _numbers(metric) for name, metric in NUMBERS.items()}
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
    if "matthews" in names:
        require("sklearn", "scikit-learn", "eval.metrics")


def compare(
    outputs: Sequence[str], targets: Sequence[str], names: Sequence[str], bootstrap: int | None = None
) -> tuple[dict[str, float], list[str]]:
    """The metrics of texts by name, and a line for each: sacrebleu's own, which has the signature.

    BLEU, chrF and TER are from 0 to 100 (TER may be more) and have sacrebleu's defaults. The others are without the
    spaces around a text: `exact_match` is the share of outputs that equal their target, `matthews` the correlation of
    texts that are classes; `pearson` and `spearman` are of numbers, and an output that is none counts as -1.

    Args:
      outputs, targets: of the same examples.
      bootstrap: resamplings of the examples. With them, `bleu_ci` is half the width of the 95% interval of `bleu`.
    """
    scores: dict[str, float] = {}
    lines = []
    stripped = [np.array([text.strip() for text in texts]) for texts in (targets, outputs)]
    for name in names:
        if name in PLAIN:
            scores[name] = PLAIN[name](*stripped)
            lines.append(f"{name} = {scores[name]:.4f}")
            continue
        import sacrebleu.metrics  # an extra

        metric = getattr(sacrebleu.metrics, SACREBLEU[name])()
        score = metric.corpus_score(outputs, [targets], n_bootstrap=bootstrap or 1)
        scores[name] = float(score.score)
        if bootstrap:
            scores[f"{name}_ci"] = float(score._ci)  # sacrebleu has no public name for it
        lines.append(score.format(signature=metric.get_signature().format()))
    return scores, lines
