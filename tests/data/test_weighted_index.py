"""The order of a mixture with weights: exact shares of any positions in a row, and places that need no replay."""

import collections
import pickle

import pytest

from txjax.data.loading.weighted_index import BLOCK, WeightedIndex

pytestmark = pytest.mark.claim(
    "Data", "mixtures with weights: shares of any batches in a row, no example again before all of its part were used"
)

SIZES = {"a": 70, "b": 30, "c": 1000}
STARTS = {"a": 0, "b": 70, "c": 100}


def part_of(example):
    return max((name for name, start in STARTS.items() if example >= start), key=STARTS.get)


def shown(index, positions):
    """By part: the (example, epoch) at some positions, in their order."""
    by_part = collections.defaultdict(list)
    for example, epoch in map(index, positions):
        by_part[part_of(example)].append((example - STARTS[part_of(example)], epoch))
    return by_part


@pytest.mark.parametrize(
    "weights", [{"a": 3, "b": 2, "c": 1}, {"a": 0.3, "b": 1e-3, "c": 0.699}, {"a": 1, "b": 1, "c": 1}]
)
def test_each_part_has_its_share_in_a_random_order(weights):
    index = WeightedIndex(SIZES, weights, 0, {})
    for blocks in (1, 2, 37):
        by_part = shown(index, range(blocks * BLOCK))
        for name, weight in weights.items():
            assert abs(len(by_part[name]) - blocks * BLOCK * weight / sum(weights.values())) < len(weights)
    order = [[part_of(index(block * BLOCK + i)[0]) for i in range(BLOCK)] for block in range(2)]
    assert order[0] != order[1]


def test_a_part_repeats_no_example_before_all_were_used():
    by_part = shown(WeightedIndex(SIZES, {"a": 3, "b": 2, "c": 1}, 0, {}), range(3000))
    for name, size in SIZES.items():
        for epoch in range(len(by_part[name]) // size):
            turn = by_part[name][epoch * size : (epoch + 1) * size]
            assert sorted(turn) == [(example, epoch) for example in range(size)]
    turns = [[example for example, _ in by_part["a"][i : i + 70]] for i in (0, 70)]
    assert turns[0] != turns[1] != sorted(turns[1])


def test_each_part_continues_after_other_weights():
    first = WeightedIndex(SIZES, {"a": 3, "b": 2, "c": 1}, 0, {})
    alone = shown(first, range(6000))
    for change in (1, 100, BLOCK, 5 * BLOCK + 17):
        second = WeightedIndex(SIZES, {"a": 1, "b": 1, "c": 3}, 0, first.used(change))
        before, after = shown(first, range(change)), shown(second, range(1000))
        for name in SIZES:
            both = before[name] + after[name]
            assert len(after[name]) > 150 and both == alone[name][: len(both)]


def test_the_seed_changes_the_orders_and_workers_have_the_same():
    index, other = (WeightedIndex(SIZES, {"a": 3, "b": 2, "c": 1}, seed, {"a": 7}) for seed in (0, 1))
    shown_here, elsewhere = ([*map(x, range(50))] for x in (index, other))
    assert shown_here != elsewhere and [*map(pickle.loads(pickle.dumps(index)), range(50))] == shown_here


def test_a_place_far_away_is_as_near_as_the_first():
    index = WeightedIndex({"a": 10**9, "b": 10**7}, {"a": 0.9, "b": 0.1}, 0, {})
    far = 10**15 + 3
    used = index.used(far)
    assert sum(used.values()) == far and abs(used["b"] - far / 10) <= 2 * BLOCK
    assert index(far)[1] in (9 * 10**5, 10**7)
