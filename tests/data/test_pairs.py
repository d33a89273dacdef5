"""Pairs of texts: both sides whole, shifted by one, and each cut to its own length; arrays cut along any axis."""

import dataclasses
import itertools

import numpy as np
import pytest

from txjax.data import Pairs, eval_batches, train_batches
from txjax.data.buckets import Bucketed, Lengths
from txjax.data.keys import check_spec
from txjax.types import UserError

import made_sentences

START, END = 256, 257
BUCKETS = ((60, 60), (60, 130))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    data_dir = made_sentences.prepare(tmp_path_factory.mktemp("tfds"))
    return Pairs("made_sentences", "train", data_dir, "{first}", "{second}", source_length=120, length=140)


def take(data, count, **settings):
    batches = train_batches(data.open(), batch_size=4, seed=3, **settings)
    found = list(itertools.islice(batches, count))
    batches.close()
    return found


def test_both_sides_are_the_sets_texts(pairs):
    check_spec("Pairs", pairs.spec(), {})
    short = dataclasses.replace(pairs, source_length=9, length=12)
    sources = [(pairs.open(), 120, 140), (short.open(), 9, 12)]
    for number, record in enumerate(made_sentences.records(60)):
        first, second = (list(record[feature].encode()) for feature in ("first", "second"))
        for opened, source, target in sources:
            example = opened.example(number, 0, np.random.default_rng(0))
            given, wanted = [*first[: source - 1], END], second[: target - 1]
            assert example["source_tokens"].tolist() == given + [0] * (source - len(given))
            assert example["source_segments"].sum() == len(given)
            rest = [0] * (target - len(wanted) - 1)
            assert example["tokens"].tolist() == [START, *wanted, *rest]
            assert example["targets"].tolist() == [*wanted, END, *rest]
            assert example["segments"].sum() == example["weights"].sum() == len(wanted) + 1


def test_each_side_is_cut_to_the_smallest_pair_that_fits_both(pairs):
    whole, cut = take(pairs, 40), take(dataclasses.replace(pairs, buckets=BUCKETS), 40)
    for a, b in zip(whole, cut, strict=True):
        sides = int(a["source_segments"].sum(1).max()), int(a["segments"].sum(1).max())
        fitting = [sizes for sizes in (*BUCKETS, (120, 140)) if all(np.less_equal(sides, sizes))]
        source, target = min(fitting, key=np.prod)
        for key, value in a.items():
            kept = value if key == "id" else value[:, : source if key.startswith("source") else target]
            np.testing.assert_array_equal(kept, b[key])
    assert len({b["source_tokens"].shape + b["tokens"].shape for b in cut}) == 3


def test_sorted_pairs_resume_at_any_step_and_show_every_example_once(pairs):
    data = dataclasses.replace(pairs, buckets=BUCKETS, sort_batches=5)
    straight, later = take(data, 12), take(data, 5, start_step=7)
    for a, b in zip(straight[7:], later, strict=True):
        assert a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    ids = [i for batch in eval_batches(data.open(), batch_size=8) for i in batch["id"][batch["weights"].max(1) > 0]]
    assert ids == list(range(60))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"buckets": ((60, 150),)}, r"data.buckets: expected pairs of lengths, at most .* = \(120, 140\)"),
        ({"sort_batches": 2}, "data.buckets: expected lengths, if sort_batches is above 1"),
        ({"target": "{secnd}"}, "data.target: .*did you mean second"),
        ({"end": "[EOS]"}, r"the token \[EOS\] among them"),
    ],
)
def test_wrong_settings(pairs, fields, message):
    with pytest.raises(UserError, match=message):
        dataclasses.replace(pairs, **fields).check()


class Frames(Bucketed):
    """Features [T C] and masks [N T C], cut along the frames; audio is never cut."""

    fingerprint = "frames"

    def __init__(self):
        sizes = np.arange(1, 9, dtype=np.int32)
        self.lengths = (Lengths(sizes, {"features": 0, "masks": 1}),)
        self.buckets, self.sort_batches = ((4,), (8,)), 1

    def __len__(self):
        return 8

    def example(self, index, epoch, rng):
        shapes = {"features": (8, 3), "masks": (2, 8, 3), "audio": (16,)}
        return {key: np.ones(shape, np.float32) for key, shape in shapes.items()} | {"weights": np.ones((), np.float32)}


def test_a_source_states_the_axis_that_is_cut():
    first, second = eval_batches(Frames(), batch_size=4)
    for batch, frames in ((first, 4), (second, 8)):
        assert batch["features"].shape == (4, frames, 3) and batch["masks"].shape == (4, 2, frames, 3)
        assert batch["audio"].shape == (4, 16)
