"""Prompts of different lengths as one batch."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from txjax.decoding.generator import Inputs


def padded(prompts: Sequence[Int[np.ndarray, "P"]]) -> Inputs:
    """The inputs of a model for some prompts, each of at least one token.

    Shorter ones are padded on the left, so that all texts continue at the same index: `segments` are 0 there and 1 in
    the prompt, whose `positions` count from 0. Prompts of one length give `tokens` alone.
    """
    longest = max(len(prompt) for prompt in prompts)
    tokens, segments, positions = np.zeros((3, len(prompts), longest), np.int32)
    for row, prompt in enumerate(prompts):
        begin = longest - len(prompt)
        tokens[row, begin:], segments[row, begin:], positions[row, begin:] = prompt, 1, np.arange(len(prompt))
    whole = {"tokens": tokens} if segments.all() else dict(tokens=tokens, segments=segments, positions=positions)
    return {name: jnp.asarray(x) for name, x in whole.items()}


def until(tokens: Int[np.ndarray, "L"], end: int | None) -> Int[np.ndarray, "N"]:
    """A row's tokens before the first `end`. If None, all."""
    ends = np.flatnonzero(tokens == end) if end is not None else ()
    return tokens[: ends[0]] if len(ends) else tokens
