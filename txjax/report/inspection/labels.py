"""The labels that pictures have for the tokens of an attention's sequences."""

import numpy as np
from jaxtyping import Int

from txjax.report.inspection.attention_sequences import NUMBERED, SEGMENTS, Sequence
from txjax.report.inspection.examples import Example


def label_tokens(
    example: Example, sequence: Sequence, most: int, row: int = 0
) -> tuple[Int[np.ndarray, "N"], list[str]]:
    """The indices of a sequence's first tokens that are no padding, and a label for each: its word, or `query 0`.

    Args:
      most: how many at most.
      row: of the example's texts.
    """
    most = min(most, sequence.length)
    if sequence.is_text:
        return example.token_indices(sequence.name, row, most), example.words(sequence.name, row, most)
    segments = example.inputs.get(SEGMENTS.get(sequence.name, ""))
    indices = (np.arange(sequence.length) if segments is None else np.flatnonzero(segments[row] > 0))[:most]
    return indices, [f"{NUMBERED[sequence.name]} {i}" for i in indices]
