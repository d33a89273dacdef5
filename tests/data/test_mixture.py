"""Mixtures have the parts' own examples, with the given weights."""

import collections
import json

import numpy as np
import pytest

from txjax import tree
from txjax.data import Bytes, Images, LabelledText, Mixture, NextTokenWindows, TextWindows, train_batches
from txjax.data.loading.mixture import MixtureSource, shares
from txjax.data.loading.rng import example_rng
from txjax.types import UserError


class Numbers:
    """Examples that contain their part, index and epoch."""

    def __init__(self, name, count):
        self.name = name
        self.count = count
        self.fingerprint = f"{name} {count}"

    def __len__(self):
        return self.count

    def example(self, index, epoch, rng):
        shown = np.array([self.name, index, epoch], np.int32)
        return {"tokens": shown, "weights": np.ones(3, np.float32)}


def shown(source, epochs):
    """(part, example, epoch) of all positions of some epochs."""
    return [
        [tuple(source.example(i, epoch, None)["tokens"].tolist()) for i in range(len(source))]
        for epoch in range(epochs)
    ]


def test_without_weights_an_epoch_is_every_part_once():
    source = MixtureSource({"a": Numbers(0, 5), "b": Numbers(1, 3)}, {})
    for epoch, found in enumerate(shown(source, 3)):
        assert found == [(0, i, epoch) for i in range(5)] + [(1, i, epoch) for i in range(3)]


def test_every_epoch_has_the_weights_and_no_early_repeats():
    source = MixtureSource({"a": Numbers(0, 10), "b": Numbers(1, 40)}, {"a": 3, "b": 2})
    seen = collections.defaultdict(list)
    for found in shown(source, 7):
        assert len(found) == 50
        assert collections.Counter(part for part, _, _ in found) == {0: 30, 1: 20}
        for part, example, _ in found:
            seen[part].append(example)
    for part, size in ((0, 10), (1, 40)):
        passes = [seen[part][i : i + size] for i in range(0, len(seen[part]) - size + 1, size)]
        assert len(passes) >= 3 and all(sorted(one) == list(range(size)) for one in passes)
        assert passes[0] != passes[1]


def test_parts_see_their_own_epoch():
    source = MixtureSource({"a": Numbers(0, 10), "b": Numbers(1, 40)}, {"a": 3, "b": 2})
    epochs = [epoch for found in shown(source, 2) for part, _, epoch in found if part == 0]
    assert epochs == [e for e in range(6) for _ in range(10)]


def test_shares_add_up():
    assert shares(10, [1, 1, 1]) == [4, 3, 3] and shares(7, [0.5, 0.5]) == [4, 3]
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = rng.random(4) + 0.01
        found = shares(97, weights.tolist())
        assert sum(found) == 97 and np.abs(np.array(found) - 97 * weights / weights.sum()).max() < 1


def test_processes_and_starts_change_nothing():
    source = MixtureSource({"a": Numbers(0, 10), "b": Numbers(1, 40)}, {"a": 3, "b": 2})

    def take(start, **settings):
        batches = train_batches(source, batch_size=4, seed=0, start_step=start, **settings)
        found = [next(batches) for _ in range(20)]
        batches.close()
        return found

    whole = take(0)
    parts = [take(0, rows=[k]) for k in range(4)]
    for step, batch in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([part[step]["tokens"] for part in parts]), batch["tokens"])
    for a, b in zip(whole[7:], take(7), strict=False):
        np.testing.assert_array_equal(a["tokens"], b["tokens"])


def windows(split="validation[:20%]", **settings):
    return NextTokenWindows(name="txjax_python_text", split=split, length=32, **settings)


def test_real_sets_mix():
    mixture = Mixture(parts={"a": windows(), "b": windows("validation[50%:70%]")})
    mixture.check()
    source, parts = mixture.open(), [part.open() for part in mixture.parts.values()]
    assert len(source) == sum(map(len, parts))
    for index, (part, place) in {0: (0, 0), len(parts[0]) + 3: (1, 3)}.items():
        mine, theirs = (s.example(i, 2, example_rng(0, 2, 0)) for s, i in ((source, index), (parts[part], place)))
        assert all(np.array_equal(mine[key], theirs[key]) for key in theirs)
    assert mixture.vocab() == 256 and mixture.spec() == windows().spec() and mixture.tokenizer == Bytes()
    assert Mixture(mixture.parts, {"a": 1, "b": 2}).open().fingerprint != source.fingerprint
    assert tree.from_json(json.loads(json.dumps(tree.to_json(mixture)))) == mixture


@pytest.mark.parametrize(
    ("parts", "weights", "words"),
    [
        ({}, {}, "data.parts: expected at least one data set"),
        ({"a": windows(feature="txt")}, {}, "data.parts.a.feature: .*did you mean text"),
        (
            {"a": windows(), "b": TextWindows(name="txjax_python_text", length=32)},
            {},
            r"data.parts.b: expected examples like .*targets int32\[32\]",
        ),
        ({"a": windows(), "b": windows(tokenizer=Bytes(("[A]",)))}, {}, "data.parts.b.tokenizer: "),
        ({"a": windows(), "b": windows()}, {"a": 1}, "data.weights: expected a number above 0 for each of a, b"),
        ({"a": windows(), "b": windows()}, {"a": 1, "b": 0}, "data.weights: "),
    ],
)
def test_user_errors(parts, weights, words):
    with pytest.raises(UserError, match=words):
        Mixture(parts, weights).check()


def test_a_part_with_too_small_a_weight_is_a_user_error():
    with pytest.raises(UserError, match="data.weights: expected a larger weight for b"):
        MixtureSource({"a": Numbers(0, 5), "b": Numbers(1, 5)}, {"a": 1, "b": 1e-3})


def test_images_mix_too():
    mixture = Mixture({"train": Images(name="txjax_digits"), "test": Images(name="txjax_digits", split="test")})
    assert len(mixture.open()) == 1797 and mixture.tokenizer is None and mixture.vocab() is None


def test_buckets_are_refused(tmp_path):
    from helpers import sentence_set

    text = LabelledText(
        "made_sentences", "train", sentence_set.prepare(tmp_path), text=("first",), classes=3, buckets=(8,)
    )
    with pytest.raises(UserError, match=r"data.parts.a.buckets: expected \(\) in a mixture"):
        Mixture({"a": text}).check()
