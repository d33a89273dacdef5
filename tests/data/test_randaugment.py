"""Every operation of RandAugment is Pillow's, drawn as in the paper."""

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from txjax.data import RandAugment
from txjax.data.images.randaugment import OPERATIONS
from txjax.types import UserError


def pictures() -> list[Image.Image]:
    rng = np.random.default_rng(0)
    smooth = rng.integers(40, 200, size=(6, 8, 3), dtype=np.uint8)
    picture = Image.fromarray(smooth).resize((32, 24), Image.Resampling.BICUBIC)
    return [picture, picture.convert("L")]


def warped(picture, a, b, c, d, e, f):
    """The affine map by its definition, nearest to Pillow's bilinear: (x, y) of the result shows (x', y')."""
    image = np.asarray(picture, np.float64).reshape(picture.height, picture.width, -1)
    x, y = np.meshgrid(np.arange(picture.width) + 0.5, np.arange(picture.height) + 0.5)
    u, v = a * x + b * y + c - 0.5, d * x + e * y + f - 0.5
    inside = (u >= -0.5) & (u < picture.width - 0.5) & (v >= -0.5) & (v < picture.height - 0.5)
    u, v = np.clip(u, 0, picture.width - 1), np.clip(v, 0, picture.height - 1)
    left, top = np.floor(u).astype(int), np.floor(v).astype(int)
    right, bottom = np.minimum(left + 1, picture.width - 1), np.minimum(top + 1, picture.height - 1)
    p, q = (u - left)[..., None], (v - top)[..., None]
    upper = image[top, left] * (1 - p) + image[top, right] * p
    lower = image[bottom, left] * (1 - p) + image[bottom, right] * p
    return np.where(inside[..., None], upper * (1 - q) + lower * q, 128.0)


@pytest.mark.parametrize("strength", [-1.0, -0.37, 0.0, 0.6, 1.0])
@pytest.mark.parametrize("picture", pictures(), ids=lambda p: p.mode)
def test_the_operations_match_their_definitions(picture, strength):
    size, m = abs(strength), strength
    cos, sin = np.cos(np.radians(30 * m)), np.sin(np.radians(30 * m))
    x, y = picture.width / 2, picture.height / 2
    expected = {
        "Identity": picture,
        "AutoContrast": ImageOps.autocontrast(picture),
        "Equalize": ImageOps.equalize(picture),
        "Solarize": picture.point(lambda v: 255 - v if v >= round(256 * (1 - size)) else v),
        "Posterize": picture.point(lambda v: v & ~(2 ** (8 - round(8 - 4 * size)) - 1)),
        "Color": ImageEnhance.Color(picture).enhance(1 + 0.9 * m),
        "Contrast": ImageEnhance.Contrast(picture).enhance(1 + 0.9 * m),
        "Brightness": picture.point(lambda v: min(int(v * (1 + 0.9 * m)), 255)),
        "Sharpness": ImageEnhance.Sharpness(picture).enhance(1 + 0.9 * m),
        "ShearX": warped(picture, 1, 0.3 * m, 0, 0, 1, 0),
        "ShearY": warped(picture, 1, 0, 0, 0.3 * m, 1, 0),
        "TranslateX": warped(picture, 1, 0, 0.45 * m * picture.width, 0, 1, 0),
        "TranslateY": warped(picture, 1, 0, 0, 0, 1, 0.45 * m * picture.height),
        "Rotate": warped(picture, cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y),
    }
    assert set(OPERATIONS) == set(expected) and len(OPERATIONS) == 14
    for name, operation in OPERATIONS.items():
        got = operation(picture, strength)
        assert got.mode == picture.mode and got.size == picture.size
        got, want = np.asarray(got, np.float64), np.asarray(expected[name], np.float64).reshape(np.shape(got))
        off = np.abs(got - want)
        # Where the map leaves the image Pillow and the formula may differ by a pixel's rounding.
        assert np.quantile(off, 0.97) <= 1.01, (name, off.max())
        if name not in ("AutoContrast", "Equalize") and strength == 0:
            assert off.max() <= 1, name


def test_magnitude_zero_keeps_what_has_a_magnitude():
    for picture in pictures():
        for name, operation in OPERATIONS.items():
            if name not in ("AutoContrast", "Equalize"):
                np.testing.assert_allclose(np.asarray(operation(picture, 0.0)), np.asarray(picture), atol=1)


def test_operations_are_drawn_alike_with_their_magnitudes(monkeypatch):
    seen = []
    for name in OPERATIONS:
        monkeypatch.setitem(
            OPERATIONS, name, lambda picture, strength, name=name: seen.append((name, strength)) or picture
        )
    image = np.zeros((4, 4, 1), np.uint8)
    count = 1500
    for i in range(count):
        RandAugment(layers=2, magnitude=6.0, deviation=0.5, probability=0.5)(image, np.random.default_rng(i))
    names, strengths = zip(*seen, strict=True)
    assert abs(len(seen) - count) < 100  # two layers, half of them happen
    expected = len(seen) / 14
    assert all(abs(names.count(name) - expected) < 5 * expected**0.5 for name in OPERATIONS)
    sizes = 10 * np.abs(strengths)
    assert abs(np.mean(np.sign(strengths))) < 0.1 and abs(sizes.mean() - 6) < 0.05 and abs(sizes.std() - 0.5) < 0.05
    seen.clear()
    RandAugment(layers=5, magnitude=4.0)(image, np.random.default_rng(0))
    assert len(seen) == 5 and {abs(strength) for _, strength in seen} == {0.4}


def test_other_channels_are_refused_by_name():
    with pytest.raises(UserError, match="images of 1 or 3 channels for RandAugment, got '2 channels'"):
        RandAugment()(np.zeros((4, 4, 2), np.uint8), np.random.default_rng(0))
