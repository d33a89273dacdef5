"""Batches whose source or size changes: every source continues where it is, from any start."""

import itertools

import numpy as np
import pytest

from txjax.data import AlternatingTasks, Images, LinearRatios, Mixture, NextTokenWindows, Portion, portioned_batches

pytestmark = pytest.mark.claim(
    "Data", "batches whose size, weights or length change at a step: each data set continues, from any start"
)


def windows(length=32, split="validation[:4%]"):
    return NextTokenWindows(name="txjax_python_text", split=split, length=length)


def mixture(**weights):
    return Mixture({"first": windows(), "second": windows(split="validation[50%:54%]")}, weights)


def take(portions, start, stop, **settings):
    batches = portioned_batches(portions, seed=3, start_step=start, **settings)
    try:
        return [*itertools.islice(batches, stop - start)]
    finally:
        batches.close()


def ids(batches):
    return [number for batch in batches for number in batch["id"].tolist()]


def assert_same(batches, others):
    for one, other in zip(batches, others, strict=True):
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.fixture(scope="module")
def portions():
    """Portions of each kind, that change at steps 5 and 9."""
    source = windows().open()
    tasks = AlternatingTasks({"text": windows(), "digits": Images(name="txjax_digits", shape=(8, 8, 1))}).open()
    return {
        "size": [Portion(0, source, 4), Portion(5, source, 6), Portion(9, source, 3)],
        "length": [Portion(0, source, 4), Portion(5, windows(16).open(), 4), Portion(9, source, 4)],
        "weights": [
            Portion(0, mixture(first=1, second=1).open(), 4),
            Portion(5, mixture(first=1, second=9).open(), 4),
            Portion(9, mixture(first=3, second=1).open(), 8),
        ],
        "tasks": [Portion(0, tasks, 4), Portion(5, tasks, 6), Portion(9, tasks, 3)],
    }


@pytest.mark.parametrize("kind", ["size", "length", "weights", "tasks"])
@pytest.mark.parametrize("start", [4, 5, 6, 8, 9, 10])
def test_batches_are_the_same_from_any_start(portions, kind, start):
    assert_same(take(portions[kind], start, 14), take(portions[kind], 0, 14)[start:])


def test_other_sizes_show_the_same_examples(portions):
    changed = ids(take(portions["size"], 0, 14))
    assert len(changed) == 5 * 4 + 4 * 6 + 5 * 3
    assert changed == ids(take([Portion(0, portions["size"][0].source, 1)], 0, len(changed)))


def test_a_source_that_comes_back_continues(portions):
    batches = take(portions["length"], 0, 14)
    assert [batch["tokens"].shape[1] for batch in batches] == [32] * 5 + [16] * 4 + [32] * 5
    whole = ids(take([Portion(0, portions["length"][0].source, 4)], 0, 10))
    assert ids(batches[:5] + batches[9:]) == whole
    assert ids(batches[5:9]) == ids(take([Portion(0, portions["length"][1].source, 4)], 0, 4))


def test_parts_continue_where_weights_change(portions):
    shown = ids(take(portions["weights"], 0, 14))
    size = len(portions["weights"][0].source.parts["first"])
    for name, ours in (("first", [i for i in shown if i < size]), ("second", [i for i in shown if i >= size])):
        alone = Mixture({"first": windows(), "second": windows(split="validation[50%:54%]")}, {"first": 1, "second": 1})
        numbers = ids(take([Portion(0, alone.open(), 50)], 0, 4))
        assert ours == [i for i in numbers if (i < size) == (name == "first")][: len(ours)]
        assert len({*ours}) == min(len(ours), size)


def test_tasks_continue_where_the_size_changes(portions):
    def by_task(batches):
        keys = {
            name: [batch[f"{name}/id"] for batch in batches if f"{name}/id" in batch] for name in ("text", "digits")
        }
        return {name: np.concatenate(x).ravel().tolist() for name, x in keys.items()}

    source = portions["tasks"][0].source
    changed, whole = by_task(take(portions["tasks"], 0, 14)), by_task(take([Portion(0, source, 6)], 0, 40))
    assert all(whole[name][: len(numbers)] == numbers for name, numbers in changed.items())


def test_ratios_that_change_follow_the_step_of_the_run(portions):
    parts = {"text": windows(), "digits": Images(name="txjax_digits", shape=(8, 8, 1))}
    ratios = LinearRatios({"text": 1, "digits": 0}, {"text": 0, "digits": 1}, 6, 7)
    source = AlternatingTasks(parts, ratios=ratios).open()
    batches = take([Portion(0, source, 2), Portion(4, source, 3)], 0, 10)
    assert ["text/id" in batch for batch in batches] == [True] * 7 + [False] * 3


def test_worker_processes_read_the_same(portions):
    assert_same(take(portions["weights"], 3, 12, workers=2), take(portions["weights"], 3, 12))
