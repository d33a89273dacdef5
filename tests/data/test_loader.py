"""Batches are the same for any number of processes, from any start, and end when closed."""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from txjax.data import Images, eval_batches, fingerprint, train_batches
from txjax.data.loading.index import GlobalIndex


class Numbers:
    """Examples that contain their epoch and a random number."""

    fingerprint = "numbers"

    def __init__(self, count, fails_at=None):
        self.count, self.fails_at = count, fails_at

    def __len__(self):
        return self.count

    def example(self, index, epoch, rng):
        if index == self.fails_at:
            raise OSError("disk on fire")
        return {
            "label": np.array(epoch, np.int32),
            "image": np.full(2, rng.random(), np.float32),
            "weights": np.ones((), np.float32),
        }


def part(k, count, size):
    """The rows of the k-th of `count` equal parts of a batch."""
    return range(k * size // count, (k + 1) * size // count)


def take(batches, count):
    rows = [next(batches) for _ in range(count)]
    batches.close()
    return rows


def assert_same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].dtype == b[key].dtype
            np.testing.assert_array_equal(a[key], b[key])


def test_batches_follow_the_global_index_over_epochs():
    index = GlobalIndex(10, seed=5)
    batches = take(train_batches(Numbers(10), batch_size=4, seed=5), 8)
    shown = [(int(i), int(e)) for batch in batches for i, e in zip(batch["id"], batch["label"], strict=True)]
    assert shown == [index(p) for p in range(32)]
    assert {key: (a.shape, str(a.dtype)) for key, a in batches[0].items()} == {
        "id": ((4,), "int32"),
        "label": ((4,), "int32"),
        "image": ((4, 2), "float32"),
        "weights": ((4,), "float32"),
    }


@pytest.mark.parametrize("count", [2, 4])
def test_processes_get_parts_of_the_same_batch(count):
    whole = take(train_batches(Numbers(10), batch_size=8, seed=0), 5)
    parts = [take(train_batches(Numbers(10), batch_size=8, seed=0, rows=part(k, count, 8)), 5) for k in range(count)]
    joined = [{key: np.concatenate([part[step][key] for part in parts]) for key in whole[0]} for step in range(5)]
    assert_same(whole, joined)


@pytest.mark.parametrize("start", [1, 3, 7, 10**9])
def test_a_start_at_any_step_continues_the_run(start):
    source = Images(name="txjax_digits", split="test").open() if start == 3 else Numbers(10)
    begin = 0 if start < 10 else start - 1  # in the first epoch, where the run can be so long
    whole = take(train_batches(source, batch_size=4, seed=1, start_step=begin), start - begin + 3)
    assert_same(whole[start - begin :], take(train_batches(source, batch_size=4, seed=1, start_step=start), 3))


def test_threads_and_seeds():
    runs = [
        take(train_batches(Numbers(100), batch_size=4, seed=0, threads=t, prefetch=p), 6) for t, p in [(1, 1), (4, 6)]
    ]
    assert_same(*runs)
    other = take(train_batches(Numbers(100), batch_size=4, seed=1), 6)
    assert [b["id"].tolist() for b in other] != [b["id"].tolist() for b in runs[0]]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_evaluation_reads_every_example_once_in_order(count):
    parts = [list(eval_batches(Numbers(10), batch_size=4, rows=part(k, count, 4))) for k in range(count)]
    assert {len(part) for part in parts} == {3}
    joined = [{key: np.concatenate([part[step][key] for part in parts]) for key in parts[0][0]} for step in range(3)]
    assert np.concatenate([batch["id"] for batch in joined])[:10].tolist() == list(range(10))
    weights = np.concatenate([batch["weights"] for batch in joined])
    assert weights.tolist() == [1] * 10 + [0] * 2
    assert not any(joined[-1][key][2:].any() for key in joined[-1])
    assert not np.concatenate([batch["label"] for batch in joined]).any()  # epoch 0


def test_a_failing_example_is_raised_with_its_own_error():
    batches = train_batches(Numbers(4, fails_at=2), batch_size=4, seed=0)
    with pytest.raises(OSError, match="disk on fire"):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_no_thread_is_left_after_close():
    before = set(threading.enumerate())
    batches = train_batches(Numbers(10), batch_size=4, seed=0)
    next(batches)
    assert set(threading.enumerate()) - before
    batches.close()
    deadline = time.monotonic() + 10
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


def test_a_program_that_does_not_close_still_ends():
    code = """
from txjax.data import Images, train_batches
batches = train_batches(Images(name="txjax_digits").open(), batch_size=8, seed=0)
print(next(batches)["id"].shape)
raise SystemExit(3)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "(8,)\n"), done.stderr


def test_fingerprint_depends_on_order_step_and_ids():
    ids = np.array([5, 0, 7, 2], np.int32)
    whole = fingerprint(ids, 3)
    assert whole == fingerprint(ids.copy(), 3) and 0 <= whole < 2**32
    others = [fingerprint(ids[::-1], 3), fingerprint(ids, 4), fingerprint(ids + 1, 3), fingerprint(ids[:3], 3)]
    assert len({whole, *others}) == 5


def test_importing_the_config_classes_loads_no_data_library():
    code = (
        "import sys, txjax.data; print([m for m in ('grain', 'tensorflow_datasets', 'tokenizers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
