"""Metrics of generated texts: sacrebleu's (Post 2018), and the share of exact matches."""

from collections.abc import Sequence

from txjax.types import UserError, near_misses, require

SACREBLEU = {"bleu": "BLEU", "chrf": "CHRF", "ter": "TER"}  # the classes of sacrebleu.metrics
EXACT = "exact_match"
METRICS = (*SACREBLEU, EXACT)


def check_metrics(names: Sequence[str]) -> None:
    """Raises UserError, for the field `eval.metrics`, if there are none, one is unknown, or sacrebleu is missing."""
    if not names:
        raise UserError("eval.metrics", f"some of {', '.join(METRICS)}", names)
    for name in names:
        if name not in METRICS:
            raise UserError("eval.metrics", f"some of {', '.join(METRICS)}", name, near_misses(name, METRICS))
    if set(names) & set(SACREBLEU):
        require("sacrebleu", "sacrebleu", "eval.metrics", extra="text")


def compare(
    outputs: Sequence[str], targets: Sequence[str], names: Sequence[str], bootstrap: int | None = None
) -> tuple[dict[str, float], list[str]]:
    """The metrics of texts by name, and a line for each: sacrebleu's own, which has the signature.

    BLEU, chrF and TER are from 0 to 100 (TER may be more) and have sacrebleu's defaults; `exact_match` is the share of
    outputs that equal their target without the spaces around them.

    Args:
      outputs, targets: of the same examples.
      bootstrap: resamplings of the examples. With them, `bleu_ci` is half the width of the 95% interval of `bleu`.
    """
    scores: dict[str, float] = {}
    lines = []
    for name in names:
        if name == EXACT:
            equal = [output.strip() == target.strip() for output, target in zip(outputs, targets, strict=True)]
            scores[name] = sum(equal) / len(equal)
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
