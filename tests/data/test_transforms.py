"""Image transforms follow their papers and the given random numbers."""

import numpy as np
import pytest
from PIL import Image

from txjax.data import Channels, Flip, Images, PadCrop, RandAugment, RandomErasing, RandomResizedCrop
from txjax.data.loading.rng import example_rng
from txjax.types import UserError

ALL = [PadCrop(2), Flip(), RandomResizedCrop(24), RandAugment(), RandomErasing(probability=1.0), Channels(3)]


def pixels(height: int = 24, width: int = 24, channels: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(256, size=(height, width, channels), dtype=np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("transform", ALL, ids=lambda t: type(t).__name__)
def test_every_transform_gives_a_new_image_that_its_draws_decide(transform, channels):
    image = pixels(channels=channels)
    before = image.copy()
    results = [transform(image, example_rng(0, epoch, 5)) for epoch in (3, 3, *range(40))]
    np.testing.assert_array_equal(image, before)
    np.testing.assert_array_equal(results[0], results[1])
    assert all(r.dtype == np.uint8 and r.shape[:2] == (24, 24) for r in results)
    different = len({r.tobytes() for r in results[2:]})
    assert different == {"Flip": 2, "PadCrop": different, "Channels": 1}.get(type(transform).__name__, different)
    assert different > 15 or isinstance(transform, Flip | Channels)


def ramp(height: int, width: int) -> np.ndarray:
    """Red is the row, green the column: so a crop shows its position."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([rows, columns, 0 * rows], -1).astype(np.uint8)


def test_random_resized_crop_is_a_box_of_the_image_resized():
    image = pixels(40, 60)
    crop = RandomResizedCrop(16, area=(0.2, 0.7))(image, np.random.default_rng(3))
    picture = Image.fromarray(image)
    rng = np.random.default_rng(3)
    area, shape = rng.uniform(0.2, 0.7) * 2400, np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
    height, width = round((area / shape) ** 0.5), round((area * shape) ** 0.5)
    top, left = rng.integers(40 - height + 1), rng.integers(60 - width + 1)
    expected = picture.crop((left, top, left + width, top + height)).resize((16, 16), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(crop, np.asarray(expected))


def test_crops_are_uniform_in_area_log_ratio_and_place():
    image = ramp(200, 200)
    boxes = []
    for i in range(600):
        crop = RandomResizedCrop(64, area=(0.1, 0.4))(image, np.random.default_rng(i)).astype(float)
        slope = [
            np.polyfit(range(20, 44), crop[20:44, 32, 0], 1)[0],
            np.polyfit(range(20, 44), crop[32, 20:44, 1], 1)[0],
        ]
        boxes.append((64 * slope[0], 64 * slope[1], crop[32, 32, 0], crop[32, 32, 1]))
    height, width, row, column = np.array(boxes).T
    share, ratio = height * width / 200**2, np.log(width / height)

    def uniform(values, low, high):
        quantiles = (np.sort(values) - low) / (high - low)
        return np.abs(quantiles - (np.arange(len(values)) + 0.5) / len(values)).max() < 1.7 / len(values) ** 0.5

    assert uniform(share, 0.1, 0.4) and uniform(ratio, -np.log(4 / 3), np.log(4 / 3))
    assert uniform((row - height / 2) / (200 - height), 0, 1) and uniform((column - width / 2) / (200 - width), 0, 1)


@pytest.mark.parametrize(("size", "box"), [((10, 100), (0, 43, 10, 13)), ((100, 10), (43, 0, 13, 10))])
def test_an_image_too_long_for_any_box_is_cut_in_the_middle(size, box):
    image = pixels(*size)
    crop = RandomResizedCrop(8, area=(0.9, 1.0))(image, np.random.default_rng(0))
    top, left, height, width = box
    middle = Image.fromarray(image[top : top + height, left : left + width])
    np.testing.assert_array_equal(crop, np.asarray(middle.resize((8, 8), Image.Resampling.BICUBIC)))


def test_erasing_puts_noise_in_one_box():
    image = np.full((50, 40, 3), 300 % 256, np.uint8)
    transform = RandomErasing(probability=0.5, area=(0.05, 0.3), ratio=(0.5, 2.0))
    shares, noise = [], []
    for i in range(400):
        erased = transform(image, np.random.default_rng(i))
        changed = (erased != image).any(-1)
        if not changed.any():
            continue
        rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert changed[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].mean() > 0.99  # one full box
        assert 0.48 < width / height < 2.1
        shares.append(height * width / 2000)
        noise.append(erased[changed])
    assert 160 < len(shares) < 240
    assert 0.04 < min(shares) < 0.08 and 0.27 < max(shares) < 0.31 and abs(np.mean(shares) - 0.175) < 0.015
    noise = np.concatenate(noise)
    assert abs(noise.mean() - 127.5) < 1 and abs(noise.std() - 256 / 12**0.5) < 1


def test_channels_repeat_grey_and_weigh_colour():
    grey = pixels(channels=1)
    np.testing.assert_array_equal(Channels(3)(grey, None), np.repeat(grey, 3, 2))
    colour = pixels()
    luma = colour @ np.array([0.299, 0.587, 0.114])
    assert np.abs(Channels(1)(colour, None)[..., 0] - luma).max() <= 1
    assert Channels(3)(colour, None) is colour
    with pytest.raises(UserError, match="1 or 2 or 3 or 4 channels for Channels, got '5 channels'"):
        Channels(3)(pixels(channels=5), None)
    shape = (
        Images(name="txjax_digits", shape=(16, 16, 3), transforms=(RandomResizedCrop(16), Channels(3)))
        .open()
        .example(0, 0, example_rng(0, 0, 0))
    )
    assert shape["image"].shape == (16, 16, 3)


def test_ranges_are_checked():
    for transform, message in [
        (RandomResizedCrop(area=(0.5, 0.2)), "RandomResizedCrop.area to be two ascending numbers"),
        (RandomResizedCrop(area=(0.5, 1.2)), "in \\(0, 1\\]"),
        (RandomErasing(ratio=(0.0, 1.0)), "RandomErasing.ratio"),
        (RandomErasing(area=(0.1,)), "RandomErasing.area"),
    ]:
        with pytest.raises(UserError, match=message):
            Images(name="txjax_digits", transforms=(transform,)).check()
