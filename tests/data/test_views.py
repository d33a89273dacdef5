"""Boxes and masks follow the pixels through every geometric transform."""

import dataclasses

import numpy as np
import pytest

from txjax.data import CenterCrop, Either, Flip, PadCrop, RandomCrop, RandomResizedCrop, Resize, ResizeWithin, Stretch
from txjax.data.images.scenes import Annotations, Scene
from txjax.data.images.views import View
from txjax.types import UserError

pytestmark = pytest.mark.claim("Boxes and masks", "boxes and masks are where the pixels are, after every transform")

TRANSFORMS = [
    PadCrop(9),
    Flip(),
    Resize(31),
    Stretch(37),
    CenterCrop(28),
    RandomResizedCrop(32, area=(0.2, 0.8)),
    ResizeWithin((24, 50), longest=60),
    RandomCrop(20, 45),
    Either((Flip(),), (RandomCrop(20, 45), Flip())),
]


def scene(rng: np.random.Generator, height: int = 40, width: int = 52) -> Scene:
    """Bright rectangles of 8 to 20 pixels on black, one in each half, with their masks and boxes."""
    image, masks, boxes = np.zeros((height, width, 1), np.uint8), [], []
    for half in range(2):
        rows, columns = rng.integers(8, 21, 2)
        top, left = rng.integers(0, height - rows + 1), half * width // 2 + rng.integers(0, width // 2 - columns + 1)
        mask = np.zeros((height, width), np.int32)
        mask[top : top + rows, left : left + columns] = 1
        image[mask > 0] = 200 + half
        masks.append(mask)
        boxes.append(np.array([top / height, left / width, (top + rows) / height, (left + columns) / width]))
    stacked, areas = np.stack(boxes).astype(np.float32), np.array([m.sum() for m in masks], np.float32)
    objects = Annotations(stacked, np.array([4, 7], np.int32), areas, np.stack(masks))
    return Scene(image, objects, dataclasses.replace(objects, masks=None), (height, width))


def edges(mask: np.ndarray) -> list[int]:
    """The rows and columns of the tightest box around a mask [H W]: top, left, bottom, right in pixels."""
    rows, columns = (np.flatnonzero(mask.any(axis)) for axis in (1, 0))
    return [rows[0], columns[0], rows[-1] + 1, columns[-1] + 1]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda transform: type(transform).__name__)
def test_boxes_and_masks_are_where_the_pixels_are(transform):
    seen = set()
    for seed in range(60):
        before = scene(np.random.default_rng(seed))
        shown = before.apply_transform(transform, np.random.default_rng(seed))
        np.testing.assert_array_equal(shown.image, transform(before.image, np.random.default_rng(seed)))
        height, width = shown.image.shape[:2]
        after = shown.objects
        np.testing.assert_array_equal(shown.crowds.boxes, after.boxes)
        # Areas are in pixels of the stored image, of what is shown; rectangles fill their boxes.
        areas = (after.boxes[:, 2:] - after.boxes[:, :2]).prod(1) * np.prod(shown.stored_extent)
        np.testing.assert_allclose(after.areas, areas, rtol=1e-3)
        assert after.masks.shape[1:] == (height, width) and len(after.masks) == len(after.boxes) == len(after.labels)
        bright = shown.image[..., 0] > 100
        # A pixel at an edge that resizing mixes may be on either side of a half.
        assert (bright != after.masks.any(0)).mean() < (0.08 if resizes(transform) else 1e-9)
        for box, label, mask in zip(after.boxes, after.labels, after.masks, strict=True):
            assert box.min() >= 0 and box.max() <= 1 and label in (4, 7)
            if mask.any():
                np.testing.assert_allclose(box * [height, width, height, width], edges(mask), atol=1.01)
            else:
                assert ((box[2:] - box[:2]) * [height, width]).min() < 1.01  # less than a pixel is left
        seen.add(len(after.boxes))
    # What a crop does not show is dropped.
    assert seen == ({1, 2} if 1 in seen else {2})


def resizes(transform) -> bool:
    return isinstance(transform, Resize | Stretch | RandomResizedCrop | ResizeWithin)


def test_two_mirrors_and_a_shift_there_and_back_change_nothing():
    before = scene(np.random.default_rng(0))
    objects = before.objects
    mirror, there, back = View.whole(40, 52, mirrored=True), View.crop(-9, -5, 58, 62), View.crop(9, 5, 40, 52)
    for first, second in ((mirror, mirror), (there, back)):
        np.testing.assert_array_equal(second.of_image(first.of_image(before.image)), before.image)
        np.testing.assert_array_equal(second.of_masks(first.of_masks(objects.masks)), objects.masks)
        boxes, _ = first.of_boxes(objects.boxes, 40, 52)
        again, kept = second.of_boxes(boxes, first.rows, first.columns)
        np.testing.assert_allclose(again, objects.boxes, atol=1e-6)
        assert kept.all()


def test_sides_are_within_their_limits():
    sides = set()
    for seed in range(40):
        view = ResizeWithin((30, 40), longest=80).view(60, 120, np.random.default_rng(seed))
        sides.add((view.rows, view.columns))
    assert sides == {(30, 60), (40, 80)}
    tall = ResizeWithin((50,), longest=80).view(120, 60, np.random.default_rng(0))
    assert (tall.rows, tall.columns) == (80, 40)
    with pytest.raises(UserError, match=r"ResizeWithin\.sides"):
        ResizeWithin(()).check()


def test_a_sliver_without_an_area_in_float32_is_dropped():
    shown, kept = View.crop(0, 0, 36, 52).of_boxes(np.array([[1 - 1e-9, 0, 1, 1]]), 36, 52)
    assert not kept.any() and shown[0, 0] == shown[0, 2] == 1


def test_no_objects_stay_none():
    boxes, kept = View.whole(8, 8, 4, 4, mirrored=True).of_boxes(np.zeros((0, 4), np.float32), 8, 8)
    assert boxes.shape == (0, 4) and kept.shape == (0,)
    assert View.whole(8, 8, 4, 4).of_masks(np.zeros((0, 8, 8), np.int32)).shape == (0, 4, 4)
