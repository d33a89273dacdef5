"""A number that identifies the examples of a batch."""

import numpy as np


def fingerprint(ids: np.ndarray, step: int) -> int:
    """A 32-bit hash of the examples of a batch, their order and the step.

    Args:
      ids: int32 [B], the `id` of the whole batch.
      step: the batch's number.
    """
    rows = np.arange(len(ids), dtype=np.uint64)
    # SplitMix64's mixing function (Steele et al. 2014) of (step, row, id).
    mixed = rows * np.uint64(0x9E3779B97F4A7C15) ^ np.asarray(ids).astype(np.uint64) << np.uint64(32)
    mixed ^= np.uint64(step)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> np.uint64(shift)) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return int(np.sum(mixed & np.uint64(0xFFFFFFFF)) & np.uint64(0xFFFFFFFF))
