"""The global index: a permutation in every epoch, another one in each, the same on every machine."""

import pytest

from txjax.data.loading.index import GlobalIndex
from txjax.data.loading.rng import example_rng, hash32


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_every_epoch_shows_every_example_once(count):
    index = GlobalIndex(count, seed=3)
    for epoch in range(3):
        shown = [index(p) for p in range(epoch * count, (epoch + 1) * count)]
        assert sorted(example for example, _ in shown) == list(range(count))
        assert {e for _, e in shown} == {epoch}


def test_orders_differ_between_epochs_and_seeds():
    def order(seed, epoch):
        return [GlobalIndex(50, seed)(epoch * 50 + p)[0] for p in range(50)]

    orders = [order(0, 0), order(0, 1), order(1, 0), list(range(50))]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])
    assert order(0, 1) == order(0, 1)


def test_hash_is_the_same_on_every_machine():
    assert hash32("order", 0, 1) == 1706904728  # a change here changes the data of every run
    assert len({hash32("order", seed, epoch) for seed in range(30) for epoch in range(30)}) == 900


def test_draws_depend_on_seed_epoch_and_example_only():
    draws = {key: example_rng(*key).random() for key in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]}
    assert len(set(draws.values())) == 4
    assert draws[0, 1, 0] == example_rng(0, 1, 0).random()
