"""Positions against their papers' formulas, written with loops."""

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import (
    Alibi,
    Grid,
    Learned,
    LinearScaling,
    Llama3Scaling,
    NoPositions,
    PaddingAwareLearned,
    Positions,
    Rotary,
    Sinusoidal,
    Sinusoidal2D,
    T5Relative,
    rotate,
)
from txjax.nn.positions.positions import alibi_slopes, t5_bucket
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "norms of queries and keys, bounded logits and scaled rotary frequencies equal their formulas",
)

POSITIONS = np.asarray([[0, 1, 2, 3, 4], [0, 1, 0, 1, 70]], np.int32)
X = numbers(2, 5, 8)


def test_learned_adds_a_row_a_position() -> None:
    learned = Learned(max_length=100)
    params = variables(learned, X, POSITIONS, method="add")
    table = params["params"]["table"]["embedding"]
    got = call(learned.apply, params, X, POSITIONS, method="add")
    np.testing.assert_allclose(got, X + table[POSITIONS], rtol=1e-6)
    with pytest.raises(UserError, match=r"config\.model\.positions\.max_length: expected at least .* 5, got 4"):
        variables(Learned(max_length=4), X, POSITIONS, method="add")


def test_counted_has_rows_for_tokens_and_one_for_padding() -> None:
    counted = PaddingAwareLearned(max_length=9, first=3)
    segments = np.asarray([[1, 1, 1, 1, 1], [0, 1, 1, 0, 2]], np.int32)
    found = np.asarray(call(counted.numbers, 5, segments))
    np.testing.assert_array_equal(found, [[0, 1, 2, 3, 4], [-1, 0, 1, -1, 2]])
    np.testing.assert_array_equal(call(counted.numbers, 5, None), [[0, 1, 2, 3, 4]])
    params = variables(counted, X, found, method="add")
    table = params["params"]["table"]["embedding"]
    got = call(counted.apply, params, X, found, method="add")
    np.testing.assert_allclose(got, X + table[[[3, 4, 5, 6, 7], [2, 3, 4, 2, 5]]], rtol=1e-6)
    with pytest.raises(UserError, match=r"max_length: expected at least 8: .* first = 3, got 7"):
        variables(PaddingAwareLearned(max_length=7, first=3), X, found, method="add")


@pytest.mark.parametrize("amplitude", [1.0, 0.02])
def test_sinusoidal(amplitude: float) -> None:
    got = (np.asarray(call(Sinusoidal(amplitude=amplitude).add, X, POSITIONS)) - X) / amplitude
    for batch, row in enumerate(POSITIONS):
        for place, position in enumerate(row):
            for i in range(4):
                angle = position / 10000 ** (2 * i / 8)
                want = [math.sin(angle), math.cos(angle)]
                np.testing.assert_allclose(got[batch, place, 2 * i : 2 * i + 2], want, atol=1e-5)


def test_sinusoidal_2d_is_column_then_row_and_zero_for_the_class_token() -> None:
    grid = Grid(rows=2, columns=3, prefix=1)
    got = Sinusoidal2D().add(jnp.zeros((1, 7, 8)), jnp.arange(7)[None], grid)[0]
    np.testing.assert_array_equal(got[0], np.zeros(8))
    for patch in range(6):
        row, column = divmod(patch, 3)
        want = []
        for place in (column, row):
            angles = [place / 10000 ** (i / 2) for i in range(2)]
            want += [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        np.testing.assert_allclose(got[1 + patch], want, atol=1e-6)


def test_rotary_rotates_pairs_as_complex_numbers() -> None:
    x = numbers(2, 5, 3, 8)
    got = np.asarray(call(rotate, x, call(Rotary(theta=500.0).rotation, POSITIONS, 8)))
    pairs = x[..., :4] + 1j * x[..., 4:]
    frequencies = 500.0 ** (-2 * np.arange(4) / 8)
    turned = pairs * np.exp(1j * POSITIONS[:, :, None, None] * frequencies)
    np.testing.assert_allclose(got[..., :4] + 1j * got[..., 4:], turned, atol=2e-5)


def test_rotary_products_depend_on_the_distance_alone() -> None:
    q, k = jnp.asarray(numbers(2, 1, 1, 1, 8))
    product = [
        float((rotate(q, Rotary().rotation(jnp.asarray([[a]]), 8)) * rotate(k, Rotary().rotation(b, 8))).sum())
        for a, b in ((3, jnp.asarray([[1]])), (103, jnp.asarray([[101]])))
    ]
    assert product[0] == pytest.approx(product[1], abs=1e-4)


def test_alibi_slopes_of_the_paper() -> None:
    assert alibi_slopes(8) == [1 / 2**i for i in range(1, 9)]
    np.testing.assert_allclose(alibi_slopes(16)[:3], [2**-0.5, 2**-1, 2**-1.5])
    # Twelve heads: those of eight, then every other one of sixteen.
    np.testing.assert_allclose(alibi_slopes(12), [*alibi_slopes(8), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    assert len(alibi_slopes(1)) == 1 and len(alibi_slopes(3)) == 3


def test_alibi_falls_with_distance() -> None:
    got = np.asarray(call(Alibi().bias, POSITIONS, POSITIONS[:, :3], 2))
    assert got.shape == (2, 2, 5, 3)
    for b, h, q, k in np.ndindex(*got.shape):
        assert got[b, h, q, k] == -(2.0 ** (-4 * (h + 1))) * abs(int(POSITIONS[b, q]) - int(POSITIONS[b, k]))


def bucket_by_hand(distance: int, buckets: int, max_distance: int, direction: str) -> int:
    bucket = 0
    if direction == "both":
        buckets //= 2
        bucket = buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(0, -distance)
    exact = buckets // 2
    if distance < exact:
        return bucket + distance
    far = exact + int(math.log(distance / exact) / math.log(max_distance / exact) * (buckets - exact) + 1e-6)
    return bucket + min(far, buckets - 1)


@pytest.mark.parametrize("direction", ["past", "both"])
def test_t5_buckets(direction: str) -> None:
    distances = np.arange(-200, 201)
    got = t5_bucket(jnp.asarray(distances), 32, 128, direction)
    np.testing.assert_array_equal(got, [bucket_by_hand(int(d), 32, 128, direction) for d in distances])


@pytest.mark.parametrize(("causal", "direction"), [(True, "past"), (False, "both")])
def test_t5_bias_is_the_table_by_bucket(causal: bool, direction: str) -> None:
    table = numbers(32, 2)
    bias = functools.partial(T5Relative().apply, heads=2, causal=causal, method="bias")
    got = np.asarray(call(bias, {"params": {"table": table}}, POSITIONS, POSITIONS))
    for b, h, q, k in np.ndindex(2, 2, 5, 5):
        bucket = bucket_by_hand(int(POSITIONS[b, k]) - int(POSITIONS[b, q]), 32, 128, direction)
        assert got[b, h, q, k] == table[bucket, h]


def test_no_positions_change_nothing() -> None:
    no_positions = NoPositions()
    x = jnp.asarray(X)
    positions = jnp.asarray(POSITIONS)
    assert no_positions.add(x, positions) is x
    assert no_positions.rotation(positions, 8) is None and no_positions.bias(positions, positions, 2) is None


@pytest.mark.parametrize("positions", [Sinusoidal(), Sinusoidal2D()])
def test_widths_that_do_not_split(positions: Positions) -> None:
    with pytest.raises(UserError, match=r"config\.model\.width"):
        positions.add(jnp.zeros((1, 2, 7)), jnp.zeros((1, 2), jnp.int32), Grid(1, 2))


def test_scaled_rotary_frequencies() -> None:
    """Linear: positions are interpolated. Llama 3.1: by the turns of each frequency in the positions of pretraining."""
    angles = lambda rotary, positions: np.arctan2(*call(rotary.rotation, positions, 16)[::-1])  # noqa: E731
    linear = angles(Rotary(theta=50.0, scaling=LinearScaling(factor=4.0)), POSITIONS * 4)
    np.testing.assert_allclose(linear, angles(Rotary(theta=50.0), POSITIONS), atol=1e-4)
    scaling = Llama3Scaling(factor=8.0, low=1.0, high=4.0, length=64)
    got = angles(Rotary(theta=50.0, scaling=scaling), np.ones((1, 1), np.int32))[0, 0]
    kinds = set()
    for i, angle in enumerate(got):
        own = 50.0 ** (-i / 8)
        turns = 64 * own / (2 * math.pi)
        kinds.add(turns < 1 or 2 * (turns > 4))
        share = 0 if turns < 1 else 1 if turns > 4 else (turns - 1) / 3
        np.testing.assert_allclose(angle, share * own + (1 - share) * own / 8, rtol=1e-5)
    assert len(kinds) == 3
    with pytest.raises(UserError, match=r"positions\.scaling\.high: expected a number above low = 5.0, got 4.0"):
        call(Rotary(scaling=Llama3Scaling(low=5.0)).rotation, POSITIONS, 8)


def test_rotary_needs_an_even_head_size() -> None:
    with pytest.raises(UserError, match=r"config\.model\.heads"):
        call(Rotary().rotation, POSITIONS, 5)
