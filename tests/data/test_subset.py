"""A balanced subset: equally many examples of each class, the same every time."""

import numpy as np
import pytest

from txjax.data import Images, Subset
from txjax.types import UserError


def labels_and_pixels(per_class: int, seed: int = 0) -> list[tuple[int, bytes]]:
    source = Images(name="txjax_digits", subset=Subset(per_class=per_class, seed=seed)).open()
    examples = [source.example(i, 0, None) for i in range(len(source))]
    return [(int(example["label"]), example["image"].tobytes()) for example in examples]


def test_every_class_has_as_many():
    chosen = labels_and_pixels(5)
    assert np.bincount([label for label, _ in chosen]).tolist() == [5] * 10
    assert len(set(chosen)) == 50


def test_it_depends_only_on_the_seed_and_contains_smaller_ones():
    assert labels_and_pixels(3) == labels_and_pixels(3)
    assert set(labels_and_pixels(3)) < set(labels_and_pixels(5))
    assert set(labels_and_pixels(3)) != set(labels_and_pixels(3, seed=1))


def test_the_fingerprint_differs_between_subsets():
    subsets = [None, Subset(per_class=3), Subset(per_class=4), Subset(per_class=3, seed=1)]
    prints = [Images(name="txjax_digits", subset=subset).open().fingerprint for subset in subsets]
    assert len(set(prints)) == 4
    assert Images(name="txjax_digits", subset=Subset(per_class=3)).open().fingerprint == prints[1]


def test_too_many_per_class_is_a_user_error():
    with pytest.raises(
        UserError, match=r"data.subset.per_class: expected at most the \d+ records of class \d, got 400"
    ):
        Images(name="txjax_digits", subset=Subset(per_class=400)).open()
