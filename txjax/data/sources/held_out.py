"""Parts of the rows of files that are held out, by a hash of each row's content."""

import numpy as np
from jaxtyping import Float64, Int64, UInt32, UInt64


def hold_out(
    numbers: Int64[np.ndarray, "N"], digests: UInt32[np.ndarray, "N"], share: float
) -> dict[str, Int64[np.ndarray, "N"]]:
    """Rows by split: `validation` and `test` have those whose hash is in the first shares of all hashes.

    A held-out part that would be empty has the row with the least hash of the others, and those that are equal to it.
    """
    uniform = mix_digests(digests) / 2**32
    order = numbers[np.argsort(uniform, kind="stable")]
    ranked = np.sort(uniform)
    test, both = (int(count) for count in np.searchsorted(ranked, [share, 2 * share]))
    if len(numbers) >= 3:
        test = _end_of_equals(ranked, max(test, 1))
        both = _end_of_equals(ranked, max(both, test + 1))
    return {
        "train": np.sort(order[both:]),
        "validation": np.sort(order[test:both]),
        "test": np.sort(order[:test]),
    }


def _end_of_equals(ranked: Float64[np.ndarray, "N"], count: int) -> int:
    """The number of the first ascending values, so many or more, of which the last one does not come again."""
    return int(np.searchsorted(ranked, ranked[min(count, len(ranked)) - 1], side="right"))


def mix_digests(digests: UInt32[np.ndarray, "N"]) -> UInt64[np.ndarray, "N"]:
    """Checksums as hashes below 2^32 whose bits all depend on all of theirs (MurmurHash3's last step)."""
    x = digests.astype(np.uint64)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x ^= x >> np.uint64(shift)
        x = (x * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))
