"""Images with boxes and masks: padded, transformed together, refused or left out; the canvases that ship."""

import dataclasses
import logging

import numpy as np
import pytest
from scipy import ndimage

from txjax.data import CenterCrop, Detections, Flip, Images, RandomCrop, ResizeWithin, eval_batches
from txjax.data.tfds import records
from txjax.types import UserError

from helpers import scene_set
from helpers.photo_set import file

pytestmark = pytest.mark.claim(
    "Boxes and masks",
    "padding, crowds and areas, boxes and records that cannot be used, canvases whose boxes are the tightest",
)

INSIDE = (0.25, 0.125, 0.75, 0.5)


def scene(boxes, height=8, width=16, masks=None, content=None):
    """A record: grey pixels, and in `instances` the boxes' own numbers."""
    instances = np.zeros((height, width), np.uint8)
    for number, (top, left, bottom, right) in enumerate(boxes, 1):
        instances[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = number
    pixels = file(np.full((height, width), 51, np.uint8)) if content is None else content
    numbers = masks if isinstance(masks, bytes) else file(instances if masks is None else masks)
    return {"image": pixels, "instances": numbers, "boxes": boxes}


GOOD = [scene([INSIDE]), scene([]), scene([INSIDE, (0, 0.5, 1, 1)], 12, 8)]
NAN, INF = float("nan"), float("inf")
DROPPED = {
    "height 0": (0.5, 0.25, 0.5, 0.75),
    "width 0": (0.25, 0.5, 0.75, 0.5),
    "inverted": (0.5, 0.75, 1, 0.25),
    "outside": (0.5, 1.125, 1, 1.5),
    "negative": (-0.5, 0, -0.25, 1),
    "not a number": (NAN, 0, 1, 1),
    "infinite": (0, 0, INF, 1),
}
CUT = {
    "beyond the end": ((0.5, 0.5, 1.25, 1), (0.5, 0.5, 1, 1)),
    "before the start": ((-0.25, -1, 0.5, 0.25), (0, 0, 0.5, 0.25)),
}
BAD = {
    "too many": (scene([INSIDE] * 4), "too many objects"),
    "masks of another size": (scene([INSIDE], masks=np.zeros((4, 4), np.uint8)), "masks of another size"),
    "damaged masks": (scene([INSIDE], masks=b"nothing"), "has damaged masks"),
    "damaged": (scene([INSIDE], content=b"nothing"), "cannot be decoded"),
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return scene_set.prepare(tmp_path_factory.mktemp("good"), GOOD)


@pytest.fixture(scope="module")
def bad_dir(tmp_path_factory):
    return scene_set.prepare(tmp_path_factory.mktemp("bad"), [GOOD[0], *(record for record, _ in BAD.values())])


@pytest.fixture(scope="module")
def changed_dir(tmp_path_factory):
    """Three boxes an image, the second of which has no area in it or reaches beyond it."""
    boxes = [*DROPPED.values(), *(box for box, _ in CUT.values())]
    records = [
        scene([INSIDE, (0, 0, 0, 0), (0, 0.5, 1, 1)]) | {"boxes": [INSIDE, box, (0, 0.5, 1, 1)]} for box in boxes
    ]
    return scene_set.prepare(tmp_path_factory.mktemp("changed"), [GOOD[0], *records])


def scenes(data_dir, **fields):
    sizes = dict(shape=(12, 20, 1), classes=3, objects=3, masks_feature="instances", mean=(0.0,), std=(1.0,))
    return Detections("made_scenes", data_dir=data_dir, **sizes | fields)


def test_an_example_is_padded_below_and_to_the_right(data_dir):
    data = scenes(data_dir)
    source = data.open()
    for index, (height, width, count) in enumerate([(8, 16, 1), (8, 16, 0), (12, 8, 2)]):
        example = source.example(index, 0, np.random.default_rng(0))
        assert {key: (x.shape, x.dtype) for key, x in example.items()} == {
            key: (x.shape, x.dtype) for key, x in data.spec().items() if key != "id"
        }
        assert list(example["extent"]) == [height, width] and example["weights"] == 1
        pixels = np.zeros((12, 20))
        pixels[:height, :width] = 0.2
        np.testing.assert_allclose(example["image"][..., 0], pixels, atol=1e-6)
        assert list(example["box_labels"]) == [*range(count), *[-1] * (3 - count)]
        assert not example["boxes"][count:].any() and not example["masks"][count:].any()
        for box, mask in zip(example["boxes"][:count], example["masks"], strict=False):
            top, left, bottom, right = (box * [12, 20, 12, 20]).round().astype(int)
            wanted = np.zeros((12, 20))
            wanted[top:bottom, left:right] = 1
            np.testing.assert_array_equal(mask, wanted)


def test_transforms_move_boxes_and_masks(data_dir):
    flipped = scenes(data_dir, transforms=(Flip(),)).open()
    boxes = [flipped.example(0, 0, np.random.default_rng(i))["boxes"][0] * [12, 20, 12, 20] for i in range(20)]
    found = {tuple(box.round(4)) for box in boxes}
    assert found == {(2, 2, 6, 8), (2, 8, 6, 14)}
    twice = scenes(data_dir, transforms=(ResizeWithin((16,), 32),), shape=(32, 32, 1)).open()
    example = twice.example(0, 0, np.random.default_rng(0))
    np.testing.assert_allclose(example["boxes"][0] * 32, (4, 4, 12, 16))
    assert list(example["extent"]) == [16, 32] and example["masks"][0].sum() == 8 * 12


@pytest.mark.parametrize("index", range(1, len(DROPPED) + 1), ids=list(DROPPED))
def test_a_box_without_an_area_is_dropped_alone(index, changed_dir, caplog):
    source = scenes(changed_dir, shape=(8, 16, 1)).open()
    caplog.set_level(logging.WARNING)
    for _ in range(2):  # the warning comes once
        example = source.example(index, 0, np.random.default_rng(0))
    assert example["weights"] == 1 and list(example["box_labels"]) == [0, 2, -1]
    np.testing.assert_array_equal(example["boxes"], [INSIDE, (0, 0.5, 1, 1), (0, 0, 0, 0)])
    np.testing.assert_array_equal(example["box_areas"], [4 * 6, 8 * 8, 0])
    assert example["masks"].sum((1, 2)).tolist() == [4 * 6, 8 * 8, 0]
    (line,) = caplog.messages
    assert f"record {index}" in line and "without an area in the image, dropped: 1 (1 so far)" in line, line


@pytest.mark.parametrize("number", range(len(CUT)), ids=list(CUT))
def test_a_box_that_reaches_beyond_the_image_is_cut(number, changed_dir, caplog):
    source, (_, inside) = scenes(changed_dir, shape=(8, 16, 1)).open(), [*CUT.values()][number]
    caplog.set_level(logging.WARNING)
    example = source.example(1 + len(DROPPED) + number, 0, np.random.default_rng(0))
    assert example["weights"] == 1 and list(example["box_labels"]) == [0, 1, 2]
    np.testing.assert_array_equal(example["boxes"], [INSIDE, inside, (0, 0.5, 1, 1)])
    assert "that reach beyond the image, cut at its border: 1 (1 so far)" in caplog.text


def test_boxes_that_were_changed_are_counted(changed_dir, caplog):
    source = scenes(changed_dir).open()
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        for index in range(len(source)):
            source.example(index, 0, np.random.default_rng(0))
    assert len(caplog.messages) == len(DROPPED) + len(CUT)
    assert "(7 so far)" in caplog.messages[len(DROPPED) - 1] and "(2 so far)" in caplog.messages[-1]


@pytest.fixture(scope="module")
def crowd_dir(tmp_path_factory):
    """Two objects and a crowd between them, with areas that are not their boxes'; an image with too many crowds."""
    boxes = [(0, 0, 0.5, 0.25), (0.25, 0.25, 1, 0.75), (0.5, 0.75, 1, 1)]
    first = scene(boxes) | {"is_crowd": [False, True, False], "area": [5, 40, 7]}
    second = scene([INSIDE] * 4) | {"is_crowd": [True] * 4, "area": [1] * 4}
    return scene_set.prepare(tmp_path_factory.mktemp("crowds"), [first, second])


def test_crowds_are_apart_from_the_objects(crowd_dir):
    data = scenes(crowd_dir, transforms=(ResizeWithin((16,), 32),), shape=(16, 64, 1))
    example = data.open().example(0, 0, np.random.default_rng(0))
    assert list(example["box_labels"]) == [0, 2, -1] and list(example["crowd_labels"]) == [1, -1, -1]
    np.testing.assert_array_equal(example["boxes"], [(0, 0, 0.5, 0.125), (0.5, 0.375, 1, 0.5), (0, 0, 0, 0)])
    np.testing.assert_array_equal(example["crowd_boxes"], [(0.25, 0.125, 1, 0.375), (0, 0, 0, 0), (0, 0, 0, 0)])
    np.testing.assert_array_equal(example["box_areas"], [5, 7, 0])
    assert list(example["extent"]) == [16, 32] and list(example["stored_extent"]) == [8, 16]
    # The mask of the last object has its own number in the image of numbers, which the crowd's comes before.
    assert example["masks"].sum((1, 2)).tolist() == [8 * 8, 8 * 8, 0] and example["masks"][1, 8:, 24:32].all()


def test_attributes_follow_their_objects(tmp_path):
    boxes = [(0, 0, 0.5, 0.25), (0.25, 0.25, 1, 0.75), (0.5, 0.75, 1, 1)]
    data_dir = scene_set.prepare(tmp_path, [scene(boxes) | {"color": [3, -1, 1]}])
    data = scenes(data_dir, attribute="color", masks_feature=None, shape=(8, 8, 1), objects=4)
    cut = dataclasses.replace(data, transforms=(CenterCrop(8),))  # columns 4 to 12: without the first and the last one
    assert cut.open().example(0, 0, np.random.default_rng(0))["box_attributes"].tolist() == [-1, -1, -1, -1]
    whole = dataclasses.replace(data, shape=(8, 16, 1))
    example = whole.open().example(0, 0, np.random.default_rng(0))
    assert example["box_attributes"].tolist() == [3, -1, 1, -1] and example["box_attributes"].dtype == np.int32
    with pytest.raises(UserError, match="data.attribute: expected a class of each object, one of .*'colour'"):
        dataclasses.replace(data, attribute="colour").check()


def test_areas_of_what_a_crop_shows(crowd_dir):
    data = scenes(crowd_dir, transforms=(CenterCrop(4),), shape=(4, 4, 1), masks_feature=None)
    example = data.open().example(0, 0, np.random.default_rng(0))  # rows 2 to 6 and columns 6 to 10
    assert list(example["box_labels"]) == [-1] * 3 and list(example["crowd_labels"]) == [1, -1, -1]
    np.testing.assert_array_equal(example["crowd_boxes"][0], [0, 0, 1, 1])
    wide = scenes(crowd_dir, transforms=(RandomCrop(6, 6),), shape=(6, 6, 1), masks_feature=None).open()
    for seed in range(20):
        example = wide.example(0, 0, np.random.default_rng(seed))
        for box, label, area in zip(example["boxes"], example["box_labels"], example["box_areas"], strict=True):
            shown = (box[2:] - box[:2]).prod() * 36
            whole, annotated = {0: (16, 5), 2: (16, 7), -1: (1, 0)}[int(label)]
            np.testing.assert_allclose(area, annotated * shown / whole, rtol=1e-5)
        assert list(example["stored_extent"]) == [6, 6]


def test_too_many_crowds_are_a_line_or_left_out(crowd_dir, caplog):
    with pytest.raises(UserError, match=r"data\.corrupt: expected at most 3 crowds \(data\.objects\).*record 1.*: 4"):
        scenes(crowd_dir).open().example(1, 0, np.random.default_rng(0))
    example = scenes(crowd_dir, corrupt="skip").open().example(1, 0, np.random.default_rng(0))
    assert example["weights"] == 0 and list(example["crowd_labels"]) == [-1] * 3


@pytest.mark.parametrize("index", range(1, len(BAD) + 1), ids=list(BAD))
def test_a_record_that_cannot_be_used_is_a_line_or_left_out(index, bad_dir, caplog):
    _, why = list(BAD.values())[index - 1]
    with pytest.raises(UserError) as error:
        scenes(bad_dir).open().example(index, 0, np.random.default_rng(0))
    said = str(error.value)
    assert "\n" not in said and said.startswith("data.corrupt: expected") and f"record {index}" in said, said
    caplog.set_level(logging.WARNING)
    example = scenes(bad_dir, corrupt="skip").open().example(index, 0, np.random.default_rng(0))
    assert example["weights"] == 0 and not example["image"].any() and (example["box_labels"] == -1).all()
    assert why in caplog.text and "(1 so far)" in caplog.text


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        (dict(classes=4), "data.classes", "the 3 classes"),
        (dict(boxes_feature="instances"), "data.boxes_feature", "Sequence"),
        (dict(boxes_feature="places"), "data.boxes_feature", "bbox"),
        (dict(boxes_feature="worded"), "data.boxes_feature", "whose area is a number"),
        (dict(masks_feature="objects"), "data.masks_feature", "Image"),
        (dict(shape=(7, 20, 1)), "data.shape", "at least (8, 16, 1)"),
        (dict(shape=(12, 20, 3)), "data.shape", "Channels(count)"),
        (dict(mean=(0.1, 0.2)), "data.mean", "1 or 1 numbers"),
        (dict(objects=2, split="test"), "data.split", "train"),
    ],
)
def test_mistakes_are_one_line(fields, field, said, data_dir):
    with pytest.raises(UserError) as error:
        scenes(data_dir, **fields).open()
    assert str(error.value).startswith(field) and said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.slow
def test_canvases_have_the_boxes_masks_and_counts_of_what_they_show():
    data = Detections("txjax_canvases", split="test", masks_feature="instances", std=(1.0,), mean=(0.0,))
    source = data.open()
    counts = records.Records("txjax_canvases", "test", None, ["count"])
    assert len(source) == 500 and data.class_names() == tuple("0123456789")
    seen, noise = np.zeros(4, int), []
    for batch in eval_batches(source, batch_size=100):
        for row in range(100):
            number = int(batch["id"][row])
            labels, masks = batch["box_labels"][row], batch["masks"][row].astype(bool)
            count = (labels >= 0).sum()
            seen[count] += 1
            assert counts[number]["count"] == count and masks.sum(0).max() <= 1
            for box, mask in zip(batch["boxes"][row][:count] * 64, masks, strict=False):
                rows, columns = ndimage.find_objects(mask.astype(int))[0]
                np.testing.assert_allclose(box, [rows.start, columns.start, rows.stop, columns.stop], atol=1e-4)
                assert max(box[2] - box[0], box[3] - box[1]) <= 24
            noise.append(batch["image"][row][~masks.any(0)].std())
    assert seen[0] == 0 and seen[1:].min() > 130
    assert 0.07 < np.mean(noise) < 0.11  # |normal| of deviation 0.15 deviates by 0.6 of that


@pytest.mark.slow
def test_canvases_of_another_set_and_as_counting(tfds_dir, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tfds_dir))
    name = "txjax_canvases/fashion_mnist"
    assert Detections(name).class_names()[8] == "Bag"
    counting = Images(name, split="test", shape=(64, 64, 1), classes=4, label="count").open()
    assert {int(counting.example(i, 0, np.random.default_rng(0))["label"]) for i in range(30)} == {1, 2, 3}
    with pytest.raises(UserError, match=r"data\.name: expected .*fashion_mnists"):
        Detections("txjax_canvases/fashion_mnists").check()
    with pytest.raises(UserError, match=r"data\.name: expected a feature of kind Image"):
        Detections("txjax_canvases/tiny_shakespeare").check()


def test_a_set_of_photographs(tfds_dir):
    data = Detections(
        "bccd",
        data_dir=str(tfds_dir),
        split="test",
        shape=(96, 128, 3),
        classes=3,
        objects=40,
        transforms=(ResizeWithin((96,), 128),),
    )
    batch = next(eval_batches(data.open(), batch_size=4))
    assert (batch["extent"] == [96, 128]).all() and (batch["box_labels"] >= 0).sum(1).min() > 0
