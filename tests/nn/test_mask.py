"""Masks against their definitions, pair by pair."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import Mask

SEGMENTS = np.asarray([[1, 1, 2, 0, 0, 2]], np.int32)


def allowed(length: int, source: int, causal: bool, window: int | None, offset: int = 0) -> np.ndarray:
    seen = np.zeros((length, source), bool)
    for query, key in np.ndindex(length, source):
        ahead = key - (query + offset)
        seen[query, key] = (not causal or ahead <= 0) and (window is None or abs(ahead) < window)
    return seen


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [None, 1, 3])
@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3)])
def test_causal_and_windows(causal: bool, window: int | None, shape: tuple[int, int]) -> None:
    want, mask = allowed(*shape, causal, window), Mask(causal=causal, window=window)
    dense = mask.dense(*shape)
    if dense is None:
        assert want.all() and not causal and window is None
    else:
        np.testing.assert_array_equal(dense, want[None, None])
    assert mask.pairs(*shape) == want.sum()


def test_an_offset_moves_the_queries() -> None:
    mask = Mask(causal=True, window=2, offset=jnp.asarray(3))
    np.testing.assert_array_equal(jax.jit(lambda m: m.dense(2, 6))(mask)[0, 0], allowed(2, 6, True, 2, offset=3))
    assert mask.pairs(2, 6) == 12  # the offset is not known before the program runs


def test_segments_and_arrays_limit_further() -> None:
    same = SEGMENTS[0][:, None] == SEGMENTS[0][None]
    segments = jnp.asarray(SEGMENTS)
    np.testing.assert_array_equal(Mask.within(segments).dense(6, 6)[0, 0], same)
    np.testing.assert_array_equal(Mask.within(segments, causal=True).dense(6, 6)[0, 0], same & np.tri(6, dtype=bool))
    assert Mask.within(None).dense(6, 6) is None
    first = jnp.asarray(np.arange(6) == 0)[None, None, None]
    np.testing.assert_array_equal(
        Mask(query_segments=segments, key_segments=segments, allowed=first).dense(6, 6)[0, 0],
        same & (np.arange(6) == 0),
    )


def test_segments_of_one_side_only_are_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="one side"):
        Mask(query_segments=jnp.asarray(SEGMENTS)).dense(6, 6)
