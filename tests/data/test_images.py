"""Images equal the data set's, changed only by the transforms and their random numbers."""

import functools

import numpy as np
import pytest

from txjax.data import CenterCrop, Flip, Images, Mixup, PadCrop, Resize
from txjax.data.loading.rng import example_rng
from txjax.types import UserError

labelled = functools.partial(Images, name="txjax_digits")


def test_digits_are_scikit_learns_scaled_to_a_byte():
    from sklearn.datasets import load_digits

    digits = load_digits()
    original = {
        (image.astype(int).tobytes(), int(label)) for image, label in zip(digits.images, digits.target, strict=True)
    }
    seen = []
    for split, count in (("train", 1500), ("test", 297)):
        source = labelled(split=split, mean=(0.0,), std=(1.0,)).open()
        assert len(source) == count
        labels = np.zeros(10, int)
        for i in range(count):
            example = source.example(i, 0, None)
            ink = np.rint(example["image"][..., 0] * 16).astype(int)  # 255 levels keep 16 apart
            seen.append((ink.tobytes(), int(example["label"])))
            labels[example["label"]] += 1
        expected = np.bincount(digits.target) * count / 1797
        assert np.abs(labels - expected).max() <= 1  # stratified
    assert len(seen) == 1797 and set(seen) == original


def test_pixels_are_normalised_by_the_formula():
    raw = labelled(mean=(0.0,), std=(1.0,)).open().example(5, 0, None)
    example = labelled(mean=(0.25,), std=(0.5,)).open().example(5, 0, None)
    np.testing.assert_allclose(example["image"], (raw["image"] - 0.25) / 0.5, rtol=1e-6)
    spec = {key: (s.shape, s.dtype) for key, s in labelled().spec().items() if key != "id"}
    assert {key: (array.shape, array.dtype) for key, array in example.items()} == spec
    assert example["weights"] == 1


def test_the_clean_image_has_no_augmentations_and_the_other_one_the_same_draws():
    source, augment = labelled(clean=(), transforms=(PadCrop(2), Flip())).open(), (PadCrop(2), Flip())
    example = source.example(5, 0, example_rng(0, 0, 5))
    np.testing.assert_array_equal(example["clean_image"], labelled().open().example(5, 0, None)["image"])
    alone = labelled(transforms=augment).open().example(5, 0, example_rng(0, 0, 5))
    np.testing.assert_array_equal(example["image"], alone["image"])
    assert not np.array_equal(example["image"], example["clean_image"])
    assert (
        example.keys() - alone.keys() == {"clean_image"} == labelled(clean=()).spec().keys() - labelled().spec().keys()
    )


def test_draws_are_keyed_by_seed_epoch_and_example():
    source = labelled(transforms=(PadCrop(2), Flip())).open()

    def image(seed, epoch):
        return source.example(7, epoch, example_rng(seed, epoch, 7))["image"]

    np.testing.assert_array_equal(image(0, 3), image(0, 3))
    assert len({image(seed, epoch).tobytes() for seed in range(4) for epoch in range(4)}) > 8


def test_caching_images_in_memory_changes_nothing(monkeypatch):
    settings = dict(transforms=(PadCrop(2), Flip()), mix=Mixup())
    kept = labelled(**settings).open()
    monkeypatch.setattr("txjax.data.images.image_reader.MEMORY", 0)
    read = labelled(**settings).open()
    reads = []
    for source in (kept, read):
        decoded = source._reader._decode
        monkeypatch.setattr(
            source._reader, "_decode", lambda i, decoded=decoded, source=source: reads.append(source) or decoded(i)
        )
    for epoch in (1, 1, 2):
        for index in range(3):
            rng, again = example_rng(0, epoch, index), example_rng(0, epoch, index)
            one, other = kept.example(index, epoch, rng), read.example(index, epoch, again)
            for key in one:
                np.testing.assert_array_equal(one[key], other[key])
    assert reads.count(read) == 18 and reads.count(kept) <= 9


def test_pad_crop_shifts_by_up_to_pad_and_reaches_every_place():
    image = np.arange(1, 10, dtype=np.uint8).reshape(3, 3, 1)
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    crops = {padded[y : y + 3, x : x + 3].tobytes() for y in range(3) for x in range(3)}
    assert {PadCrop(1)(image, np.random.default_rng(i)).tobytes() for i in range(200)} == crops


def test_flip_mirrors_half_of_the_time():
    image = np.arange(12, dtype=np.uint8).reshape(2, 3, 2)
    results = [Flip()(image, np.random.default_rng(i)) for i in range(200)]
    mirrored = np.array([np.array_equal(r, image[:, ::-1]) for r in results])
    assert all(m or np.array_equal(r, image) for m, r in zip(mirrored, results, strict=True))
    assert 70 < mirrored.sum() < 130


@pytest.mark.parametrize("channels", [1, 3])
def test_resize_brings_the_shorter_side_to_size(channels):
    image = np.full((6, 12, channels), 7, np.uint8)
    resized = Resize(4)(image, None)
    assert resized.shape == (4, 8, channels) and resized.dtype == np.uint8 and (resized == 7).all()


def test_center_crop_cuts_the_middle():
    image = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7, 1)
    np.testing.assert_array_equal(CenterCrop(3)(image, None), image[1:4, 2:5])
    with pytest.raises(UserError, match="at most 5, got 6; put Resize before it"):
        CenterCrop(6)(image, None)


def test_images_of_another_size_need_resize():
    with pytest.raises(UserError, match=r"data.shape: .*\(8, 8, 1\).*got \(16, 16, 1\).*Resize"):
        labelled(shape=(16, 16, 1)).open()
    with pytest.raises(UserError, match=r"Channels\(count\)"):
        labelled(shape=(8, 8, 3)).open()
    assert labelled(shape=(16, 16, 1), transforms=(Resize(16),)).open().example(0, 0, None)["image"].shape == (
        16,
        16,
        1,
    )


def test_user_errors():
    for field, value, message in [
        ("classes", 11, "the 10 classes of txjax_digits"),
        ("image_feature", "imag", "did you mean image"),
        ("label", "labels", "did you mean label"),
        ("mean", (0.1, 0.2), "1 or 1 numbers"),
        ("std", (0.0,), "above 0"),
    ]:
        with pytest.raises(UserError, match=message) as error:
            labelled(**{field: value}).check()
        assert error.value.field == f"data.{field}"


def test_missing_pillow_is_a_user_error(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pillow to be installed; pip install 'txjax\[vision\]'"):
        Resize(8).check()


@pytest.mark.slow
def test_prepared_sets_are_read_too(tfds_dir):
    settings = dict(name="fashion_mnist", data_dir=str(tfds_dir))
    source = Images(**settings, shape=(28, 28, 1)).open()
    assert len(source) == 60_000 and source.example(0, 0, None)["label"] == 2
    small = Images(**settings, split="test[:1%]", shape=(14, 14, 1), transforms=(Resize(14),)).open()
    assert len(small) == 100 and small.example(99, 0, None)["image"].shape == (14, 14, 1)
    with pytest.raises(UserError, match="Resize"):
        Images(**settings).open()
