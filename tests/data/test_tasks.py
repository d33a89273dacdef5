"""Several tasks in a batch: every example has rows of all, and follows from seed and step alone."""

import itertools

import numpy as np
import pytest

from txjax.data import Images, LabelledText, Limits, Tasks, train_batches
from txjax.data.keys import check_spec
from txjax.models.multimodal.shared_trunk.shared_trunk import SharedTrunk
from txjax.nn import Classes, MeanTokens
from txjax.objectives import Classification, MultiTask
from txjax.types import UserError

from helpers import sentence_set

pytestmark = pytest.mark.claim(
    "Data",
    "rows of several tasks, pairs cut along each axis: the same batches from any step and on any number of hosts",
)

ROWS = {"texts": 3}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    data_dir = sentence_set.prepare(tmp_path_factory.mktemp("tfds"))
    texts = LabelledText("made_sentences", "train", data_dir, 120, text=("first",), classes=3, buckets=(40, 80))
    images = Images(name="txjax_digits", split="test", shape=(8, 8, 1))
    return Tasks(parts={"images": images, "texts": texts}, rows=ROWS)


def take(source, count, **settings):
    batches = train_batches(source, batch_size=4, seed=3, **settings)
    found = list(itertools.islice(batches, count))
    batches.close()
    return found


def test_every_example_has_the_rows_of_each_part(tasks):
    check_spec("Tasks", tasks.spec(), tasks.keys())
    source = tasks.open()
    assert len(source) == 297  # of the images; the 60 texts are shown 14 times
    parts = {name: part.open() for name, part in tasks.parts.items()}
    for batch in take(source, 6):
        assert batch["images/image"].shape == (4, 1, 8, 8, 1) and batch["texts/label"].shape == (4, 3)
        for task, key in (("images", "image"), ("texts", "tokens")):
            ids, values = batch[f"{task}/id"], batch[f"{task}/{key}"]
            for index in np.ndindex(ids.shape):
                whole = parts[task].example(int(ids[index]), 0, np.random.default_rng(0))[key]
                kept = whole[: values.shape[2]]
                np.testing.assert_array_equal(values[index], kept)
                assert not whole[len(kept) :].any() or task == "images"


def test_a_part_repeats_no_example_before_all_were_shown(tasks):
    source = tasks.open()
    shown = [source.example(i, epoch, np.random.default_rng(0)) for epoch in range(2) for i in range(len(source))]
    assert sorted(example["images/id"][0] for example in shown[:297]) == list(range(297))
    texts = np.concatenate([example["texts/id"] for example in shown])
    rounds = [texts[start : start + 60].tolist() for start in range(0, len(texts) - 60, 60)]
    assert all(sorted(each) == list(range(60)) for each in rounds) and rounds[0] != rounds[1]


@pytest.mark.parametrize("start", [3, 7])
def test_a_batch_follows_from_seed_and_step_on_any_number_of_hosts(tasks, start):
    source = tasks.open()
    straight, later = take(source, start + 3), take(source, 3, start_step=start)
    halves = [take(source, 3, start_step=start, rows=range(2 * k, 2 * k + 2)) for k in range(2)]
    assert len({batch["texts/tokens"].shape for batch in straight}) > 1  # cut to the part's own buckets
    for step, batch in enumerate(straight[start:]):
        for key, value in batch.items():
            np.testing.assert_array_equal(value, later[step][key])
            np.testing.assert_array_equal(value, np.concatenate([half[step][key] for half in halves]))


def test_ids_are_checked_by_the_task_that_has_them(tasks):
    sizes = {"width": 8, "depth": 1, "heads": 1, "patch": 4}
    objective = MultiTask(tasks={"images": Classification(), "texts": Classification()})
    fine = SharedTrunk(
        vocab=258, tasks={"images": Classes(10, MeanTokens()), "texts": Classes(3, MeanTokens())}, **sizes
    )
    (batch,) = take(tasks.open(), 1)
    Limits.of("config.data", fine, objective.required_keys).check(batch)
    objective.check(fine, tasks)
    few = SharedTrunk(
        vocab=258, tasks={"images": Classes(10, MeanTokens()), "texts": Classes(2, MeanTokens())}, **sizes
    )
    batch["texts/label"][:] = 0
    batch["texts/label"][1, 2] = 2
    number = batch["texts/id"][1, 2]
    with pytest.raises(UserError, match=f"expected texts/label from 0 to 1 .*got '2 in example {number}'"):
        Limits.of("config.data", few, objective.required_keys).check(batch)
    with pytest.raises(
        UserError, match="config.model.head.classes: .* 3, the classes of config.data .task texts., got 2"
    ):
        objective.check(few, tasks)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"parts": {}}, "data.parts: expected at least one data set"),
        ({"rows": {"text": 2}}, "data.rows: expected a number of at least 1 for some of images, texts"),
        ({"rows": {"texts": 0}}, "data.rows"),
    ],
)
def test_wrong_settings(tasks, fields, message):
    with pytest.raises(UserError, match=message):
        Tasks(**{"parts": tasks.parts, **fields}).check()
