"""Shorter batches with the same examples: only padding is cut, for any number of processes and any start."""

import numpy as np
import pytest

from txjax.data import LabelledText, eval_batches, train_batches
from txjax.data.loading.buckets import LengthSortedIndex
from txjax.data.loading.index import GlobalIndex

from helpers import sentence_set

LENGTH, BUCKETS = 120, (20, 40, 80)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return sentence_set.prepare(tmp_path_factory.mktemp("tfds"))


@pytest.fixture(scope="module")
def opened(data_dir):
    def source(**settings):
        features = ("first", "second")
        return LabelledText("made_sentences", "train", data_dir, LENGTH, text=features, classes=3, **settings).open()

    return {
        "whole": source(),
        "cut": source(buckets=BUCKETS),
        "sorted": source(buckets=BUCKETS, sort_batches=4),
    }


def take(source, count, **settings):
    batches = train_batches(source, batch_size=4, seed=3, **settings)
    found = [next(batches) for _ in range(count)]
    batches.close()
    return found


def real(batch):
    return int(batch["segments"].sum(1).max())


def smallest(length):
    return min(bucket for bucket in (*BUCKETS, LENGTH) if bucket >= length)


def test_only_padding_is_cut(opened):
    whole, cut = take(opened["whole"], 40), take(opened["cut"], 40)
    for a, b in zip(whole, cut, strict=True):
        width = b["tokens"].shape[1]
        assert width == smallest(real(a))
        for key in a:
            kept = a[key][:, :width] if a[key].ndim == 2 else a[key]
            np.testing.assert_array_equal(kept, b[key])
    assert {b["tokens"].shape[1] for b in whole} == {LENGTH}
    assert len({b["tokens"].shape[1] for b in cut}) >= 2


@pytest.mark.parametrize("kind", ["cut", "sorted"])
@pytest.mark.parametrize("count", [2, 4])
def test_processes_agree_on_every_length(opened, kind, count):
    whole = take(opened[kind], 30)
    parts = [take(opened[kind], 30, rows=range(4 * k // count, 4 * (k + 1) // count)) for k in range(count)]
    for step, batch in enumerate(whole):
        for key in batch:
            np.testing.assert_array_equal(np.concatenate([part[step][key] for part in parts]), batch[key])


@pytest.mark.parametrize("kind", ["cut", "sorted"])
@pytest.mark.parametrize("start", [1, 3, 17, 38])
def test_a_start_at_any_step_continues_the_run(opened, kind, start):
    straight, later = take(opened[kind], start + 5), take(opened[kind], 5, start_step=start)
    for a, b in zip(straight[start:], later, strict=True):
        assert all(np.array_equal(a[key], b[key]) for key in a)


def test_sorted_batches_show_the_same_examples_with_less_padding(opened):
    cut, ordered = take(opened["cut"], 40), take(opened["sorted"], 40)
    for window in range(0, 40, 4):
        ids = [sorted(i for b in side[window : window + 4] for i in b["id"].tolist()) for side in (cut, ordered)]
        assert ids[0] == ids[1]
    positions = [sum(b["tokens"].size for b in side) for side in (cut, ordered)]
    assert positions[1] < positions[0]
    # The batches of a window come in any order: the shortest isn't always first.
    firsts = {int(np.argmin([real(b) for b in ordered[w : w + 4]])) for w in range(0, 40, 4)}
    assert len(firsts) > 1


def test_sorting_is_a_permutation_of_positions():
    lengths = np.random.default_rng(0).integers(1, 50, 13).astype(np.int32)
    plain = GlobalIndex(13, seed=1)

    def index() -> LengthSortedIndex:
        return LengthSortedIndex(plain, lambda shown: lengths[[number for number, _ in shown]], batch_size=3, batches=5)

    ordered = index()
    for window in range(6):
        span = range(window * 15, window * 15 + 15)
        assert sorted(map(ordered, span)) == sorted(map(plain, span))
        sizes = [[lengths[ordered(p)[0]] for p in span[b : b + 3]] for b in range(0, 15, 3)]
        joined = [size for batch in sorted(sizes, key=lambda s: (s[0], s[-1])) for size in batch]
        assert joined == sorted(joined)
    assert [ordered(p) for p in (44, 3, 44)] == [index()(p) for p in (44, 3, 44)]


def test_evaluation_keeps_the_order_and_every_example(opened):
    whole = list(eval_batches(opened["whole"], batch_size=8))
    for kind in ("cut", "sorted"):
        found = list(eval_batches(opened[kind], batch_size=8))
        assert len(found) == len(whole) == 8
        for a, b in zip(whole, found, strict=True):
            width = b["tokens"].shape[1]
            assert width == smallest(real(a))
            np.testing.assert_array_equal(a["tokens"][:, :width], b["tokens"])
            np.testing.assert_array_equal(a["weights"], b["weights"])
        assert found[-1]["weights"][4:].tolist() == [0] * 4
