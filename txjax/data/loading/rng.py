"""Random generators keyed by purpose, so that values don't depend on the order or the process of the draws."""

import functools
import hashlib

import numpy as np


@functools.lru_cache(maxsize=1024)
def hash32(*words: int | str) -> int:
    """A 32-bit hash of numbers and strings, the same on every machine."""
    return int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=4).digest(), "little")


def example_rng(seed: int, epoch: int, example: int) -> np.random.Generator:
    """The generator for all randomness of one example in one epoch (Philox, a counter-based generator)."""
    return np.random.Generator(np.random.Philox(key=[hash32("rng", seed, epoch), example]))
