"""One task a batch: which one, and its rows, follow from the seed and the step alone."""

import collections
import itertools
import pickle

import numpy as np
import pytest

from txjax.data import AlternatingTasks, Images, LabelledText, LinearRatios, train_batches
from txjax.data.loading.task_draws import CHUNK, TaskDraws
from txjax.types import UserError

from helpers import sentence_set

pytestmark = pytest.mark.claim(
    "Data", "batches of one task each, drawn by ratios that may change: the same from any step and on any hosts"
)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    texts = LabelledText("made_sentences", "train", data_dir, 120, text=("first",), classes=3, buckets=(40, 80))
    images = Images(name="txjax_digits", split="test", shape=(8, 8, 1))
    return AlternatingTasks(parts={"images": images, "texts": texts}, rows={"texts": 3}, ratios={"texts": 2.0})


def take(source, count, **settings):
    reader = train_batches(source, batch_size=4, seed=3, **settings)
    batches = list(itertools.islice(reader, count))
    reader.close()
    return batches


def task_of(batch):
    (name,) = {key.split("/")[0] for key in batch if "/" in key}
    return name


def test_a_batch_has_the_rows_of_one_part_which_continues_where_it_was(tasks):
    batches = take(tasks.open(), 40)
    names = [task_of(batch) for batch in batches]
    assert names == [tasks.draws(3)(number)[0] for number in range(40)]
    assert collections.Counter(names) == tasks.draws(3).counts(40)
    assert {name: share * 40 for name, share in tasks.batch_shares(3, 40).items()} == tasks.draws(3).counts(40)
    for name, part in tasks.parts.items():
        of_part = [batch for batch in batches if task_of(batch) == name]
        ids = np.concatenate([batch[f"{name}/id"].ravel() for batch in of_part]).tolist()
        size = len(part.open())
        assert len(of_part) > 5 and len(set(ids[:size])) == min(size, len(ids))
        assert {key: x.dtype for key, x in of_part[0].items()} == {
            key: x.dtype for key, x in tasks.batch_specs()[name].items()
        }
    assert {batch["texts/label"].shape for batch in batches if "texts/label" in batch} == {(4, 3)}
    assert len({batch["texts/tokens"].shape for batch in batches if "texts/tokens" in batch}) > 1  # its own buckets


@pytest.mark.parametrize("start", [1, 7])
def test_a_batch_follows_from_seed_and_step_on_any_number_of_hosts(tasks, start):
    source = tasks.open()
    straight = take(source, start + 4)
    later = take(source, 4, start_step=start)
    halves = [take(source, 4, start_step=start, rows=range(2 * k, 2 * k + 2)) for k in range(2)]
    for step, batch in enumerate(straight[start:]):
        assert batch.keys() == later[step].keys()
        for key, value in batch.items():
            np.testing.assert_array_equal(value, later[step][key])
            np.testing.assert_array_equal(value, np.concatenate([half[step][key] for half in halves]))


def test_tasks_are_drawn_by_their_ratios_and_counted_across_chunks():
    draws = TaskDraws(("a", "b", "c"), LinearRatios({"a": 3.0}, {"a": 3.0}), seed=1)
    counts = draws.counts(100_000)
    assert sum(counts.values()) == 100_000
    assert counts["a"] / 100_000 == pytest.approx(0.6, abs=0.005)
    again = pickle.loads(pickle.dumps(draws))
    for batch in (0, CHUNK - 1, CHUNK, 3 * CHUNK + 5):
        name, before = again(batch)
        assert before == draws.counts(batch)[name]
        assert draws.counts(batch + 1) == draws.counts(batch) | {name: before + 1}
    assert TaskDraws(("a", "b", "c"), LinearRatios({"a": 3.0}, {"a": 3.0}), seed=2).counts(100) != draws.counts(100)


def test_ratios_may_change_with_the_step():
    ratios = LinearRatios(first={"b": 0.0}, last={"a": 0.0}, begin=1000, end=3000)
    draws = TaskDraws(("a", "b"), ratios, seed=0)
    assert draws.counts(1001) == {"a": 1001, "b": 0}
    middle = draws.counts(2200)["b"] - draws.counts(1800)["b"]
    assert middle / 400 == pytest.approx(0.5, abs=0.08)
    assert draws.counts(5000)["a"] == draws.counts(3000)["a"]


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ({"text": 2.0}, "data.ratios: expected numbers for some of images, texts"),
        ({"texts": -1.0}, "data.ratios: expected numbers of at least 0"),
        ({"texts": 0.0, "images": 0.0}, "data.ratios: expected a number above 0 for at least one part"),
        (LinearRatios(last={"texts": float("nan")}), "data.ratios.last: expected numbers of at least 0"),
        (LinearRatios(begin=5, end=5), "data.ratios.end: expected above data.ratios.begin = 5"),
    ],
)
def test_wrong_ratios(tasks, ratios, message):
    with pytest.raises(UserError, match=message):
        AlternatingTasks(parts=tasks.parts, ratios=ratios).check()
