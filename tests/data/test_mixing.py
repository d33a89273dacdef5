"""Mixup and CutMix by their formulas, and mixed examples that do not depend on how a batch is split."""

import numpy as np
import pytest

from txjax.data import CutMix, Images, Mixup, OneOf, train_batches
from txjax.data.keys import BATCH_KEYS
from txjax.data.loading.rng import example_rng
from txjax.types import UserError

ONE, OTHER = np.full((12, 20, 3), 1.0, np.float32), np.full((12, 20, 3), -1.0, np.float32)


def test_mixup_is_a_weighted_mean_with_a_beta_share():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 4, 5, 3)).astype(np.float32)
    shares = []
    for i in range(500):
        mixed, share = Mixup(alpha=0.4)(one.copy(), other.copy(), np.random.default_rng(i))
        np.testing.assert_allclose(mixed, share * one + (1 - share) * other, atol=1e-6)
        assert mixed.dtype == np.float32
        shares.append(share)
    # Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)).
    assert abs(np.mean(shares) - 0.5) < 0.05 and abs(np.var(shares) - 1 / (4 * 1.8)) < 0.015


def test_cutmix_pastes_one_box_and_counts_what_is_left():
    shares, sides = [], []
    for i in range(500):
        mixed, share = CutMix(alpha=1.0)(ONE.copy(), OTHER, np.random.default_rng(i))
        pasted = (mixed == OTHER).all(-1)
        assert ((mixed == ONE).all(-1) | pasted).all()
        assert share == pytest.approx(1 - pasted.mean())
        shares.append(share)
        if pasted.any():
            rows, columns = np.flatnonzero(pasted.any(1)), np.flatnonzero(pasted.any(0))
            assert pasted[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
            if rows[0] > 0 and rows[-1] < 11 and columns[0] > 0 and columns[-1] < 19:  # not clipped
                sides.append((len(rows) / 12, len(columns) / 20))
    heights, widths = np.array(sides).T
    assert np.abs(heights - widths).max() < 1 / 12 + 1 / 20  # the aspect ratio of the image
    assert 0.6 < np.mean(shares) < 0.75  # 1/2 before the box is cut at the border


def test_one_of_draws_by_weight():
    def pasted(mixing):
        draws = [mixing(ONE.copy(), OTHER.copy(), np.random.default_rng(i)) for i in range(300)]
        return np.mean([np.isin(mixed, (1.0, -1.0)).all() for mixed, _ in draws])

    assert 0.4 < pasted(OneOf()) < 0.6
    assert pasted(OneOf(weights=(1.0, 0.0))) < 0.05 and pasted(OneOf(weights=(0.0, 1.0))) == 1
    for weights in ((1.0,), (-1.0, 2.0), (0.0, 0.0)):
        with pytest.raises(UserError, match="data.mix.weights"):
            Images(name="txjax_digits", mix=OneOf(weights=weights)).check()


def test_a_mixed_example_names_both_labels():
    images = Images(name="txjax_digits", mix=Mixup(alpha=1.0))
    source, plain = images.open(), Images(name="txjax_digits").open()
    spec = {key: (s.shape, s.dtype) for key, s in images.spec().items() if key != "id"}
    assert set(images.spec()) <= set(BATCH_KEYS)
    for index in range(20):
        example = source.example(index, 1, example_rng(0, 1, index))
        assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec
        own = plain.example(index, 0, None)
        assert example["label"] == own["label"] and example["weights"] == 1
        partner = int(example_rng(0, 1, index).integers(len(source)))  # the first draw, as nothing else is drawn
        other = plain.example(partner, 0, None)
        assert example["other_label"] == other["label"]
        share = example["mix"]
        np.testing.assert_allclose(example["image"], share * own["image"] + (1 - share) * other["image"], atol=1e-5)


def test_mixed_batches_do_not_depend_on_the_split():
    source = Images(name="txjax_digits", mix=OneOf()).open()
    whole = next(train_batches(source, batch_size=8, seed=3, start_step=2))
    parts = [
        next(train_batches(source, batch_size=8, seed=3, start_step=2, rows=range(4 * k, 4 * k + 4))) for k in (0, 1)
    ]
    for key, array in whole.items():
        np.testing.assert_array_equal(array, np.concatenate([part[key] for part in parts]))
    assert len(set(whole["mix"].tolist())) > 4
