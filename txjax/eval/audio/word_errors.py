"""Substitutions, deletions and insertions of recognised texts, by jiwer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from txjax.eval.results import COUNT, Rows

KINDS = {"substitute": "substitutions", "delete": "deletions", "insert": "insertions"}  # jiwer's words
RATES = {"wer": "process_words", "cer": "process_characters"}  # jiwer's functions
NAMES = tuple(name for rate in RATES for name in (rate, *(f"{rate}_{kind}" for kind in KINDS.values())))


def count_errors(references: Sequence[str], outputs: Sequence[str]) -> Rows:
    """The errors of each text, by the names of the rates: columns [N] of sums, and of the words (characters) of the
    references, by which a sum is divided.

    Words are what spaces separate; no space at the ends of a text counts.
    """
    import jiwer  # an extra

    rows: Rows = {}
    for rate, function in RATES.items():
        result = getattr(jiwer, function)(list(references), list(outputs))
        units = np.array([len(reference) for reference in result.references], np.float64)
        counts = [_count_kinds(chunks) for chunks in result.alignments]
        columns = {f"{rate}_{kind}": np.array([count[kind] for count in counts]) for kind in KINDS.values()}
        columns = {rate: sum(columns.values(), np.zeros(len(units))), **columns}
        rows |= columns | {name + COUNT: units for name in columns}
    return rows


def _count_kinds(chunks: Sequence[Any]) -> dict[str, float]:
    """The number of each kind of error in jiwer's alignment of a text."""
    counts = dict.fromkeys(KINDS.values(), 0.0)
    for chunk in chunks:
        if chunk.type != "equal":
            removed = chunk.ref_end_idx - chunk.ref_start_idx
            added = chunk.hyp_end_idx - chunk.hyp_start_idx
            counts[KINDS[chunk.type]] += max(removed, added)
    return counts


def show_errors(reference: str, output: str) -> str:
    """The two texts word below word in lines REF and HYP, and a third line with S, D or I below each error."""
    import jiwer  # an extra

    alignment = jiwer.process_words([reference], [output])
    _, lines = jiwer.visualize_alignment(alignment, show_measures=False, skip_correct=False).split("\n\n", 1)
    return "\n".join(line.rstrip() for line in lines.splitlines()).rstrip()
