"""Randomness keyed by what it is for, so that it never depends on who draws first, or where."""

import functools
import hashlib

import numpy as np


@functools.lru_cache(maxsize=1024)
def hash32(*words: int | str) -> int:
    """A 32-bit hash of some numbers and words, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=4).digest(), "little")


def example_rng(seed: int, epoch: int, example: int) -> np.random.Generator:
    """The generator of every draw made for one example in one epoch (Philox, a counter-based generator)."""
    return np.random.Generator(np.random.Philox(key=[hash32("rng", seed, epoch), example]))
