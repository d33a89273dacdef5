"""COCO's average precision of predictions whose score is known, and the picture of boxes."""

import contextlib
import dataclasses
import io
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from txjax.data import Dataset, Detections, Stretch
from txjax.eval import AveragePrecision, DetectedObjects
from txjax.eval.images.average_precision import Detected, scores
from txjax.eval.pictures import GAP, SIDE, Outline, grid
from txjax.nn import ObjectPredictions
from txjax.objectives import SetPrediction
from txjax.types import spec

from helpers import scene_set
from helpers.evaluations import measure
from helpers.photo_set import file

SIZE, EXTENT, STORED = (40, 60), (30, 50), (33, 55)  # padded, not, and before it was resized
BOXES = np.array([[[3, 5, 13, 25], [12, 20, 30, 50]], [[0, 0, 30, 10], [0, 0, 0, 0]]], np.float32)  # in pixels
LABELS = np.array([[1, 0], [2, -1]], np.int32)


@dataclasses.dataclass
class Scenes(Dataset):
    """Two images with three objects, and a third one that was left out."""

    name: str = "made"
    split: str = "test"
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    def spec(self) -> dict[str, jax.ShapeDtypeStruct]:
        shapes = {"image": spec((*SIZE, 1), "float32"), "extent": spec((2,), "int32"), "boxes": spec((2, 4), "float32")}
        shapes |= {"stored_extent": spec((2,), "float32")}
        more = {"box_labels": spec((2,), "int32"), "weights": spec((), "float32"), "id": spec((), "int32")}
        return shapes | more

    def class_names(self) -> tuple[str, ...]:
        return "cat", "dog", "bird"

    def check(self) -> None:
        pass

    def open(self) -> "SceneSource":
        return SceneSource()


class SceneSource:
    fingerprint = "made"

    def __len__(self) -> int:
        return 3

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, Any]:
        real = index < 2
        return {
            "image": np.full((*SIZE, 1), 0.25, np.float32),
            "extent": np.array(EXTENT if real else (0, 0), np.int32),
            "stored_extent": np.array(STORED if real else (0, 0), np.float32),
            "boxes": BOXES[index % 2] / np.tile(SIZE, 2).astype(np.float32),
            "box_labels": LABELS[index] if real else np.array([-1, -1], np.int32),
            "weights": np.float32(real),
        }


class Oracle(nn.Module):
    """Predicts the boxes of the first image for all, with the scale `height` and the class `label` or the true one."""

    label: int | None = None
    height: float = 1.0

    @nn.compact
    def __call__(self, image: Any, extent: Any = None, train: bool = False) -> ObjectPredictions:
        top, left, bottom, right = np.moveaxis(BOXES / np.tile(EXTENT, 2), -1, 0)
        height = (bottom - top) * self.height
        centres = np.stack([top + height / 2, (left + right) / 2, height, right - left], -1).astype(np.float32)
        labels = np.where(LABELS < 0, 3, LABELS if self.label is None else self.label)
        which = jnp.arange(len(image)) % 2
        boxes, logits = jnp.asarray(centres)[which], 9 * jax.nn.one_hot(labels, 4)[which]
        return ObjectPredictions(jnp.stack([0 * logits, logits]), jnp.stack([0 * boxes, boxes]))


def precision(tmp_path: Any, **fields: Any) -> dict[str, float]:
    return measure(Oracle(**fields), SetPrediction(), AveragePrecision(data=Scenes()), folder=tmp_path)


def test_average_precision(tmp_path) -> None:
    perfect = precision(tmp_path)
    assert perfect.pop("ap_small") == pytest.approx(1) and perfect.pop("recall") == 1
    assert perfect == pytest.approx({"ap": 1, "ap50": 1, "ap75": 1, "ap50_any_class": 1}, abs=1e-6)  # all are small
    # Every box has 0.72 of its height: an IoU of 0.72, enough at 5 of 10 thresholds.
    short = precision(tmp_path, height=0.72)
    assert short == pytest.approx({**short, "ap": 0.5, "ap50": 1, "ap75": 0}, abs=1e-6)
    # Two of three objects have another class than the predicted one; of the third class no object is found.
    wrong = precision(tmp_path, label=1)
    assert wrong["ap50_any_class"] == pytest.approx(1, abs=1e-6) and wrong["ap50"] == pytest.approx(1 / 3, abs=0.34)
    assert wrong["ap50"] < 0.5


def test_numbers_that_are_not_finite_and_sets_without_objects() -> None:
    one, nothing = np.ones((1, 2), np.float32), np.full((1, 2), -1)
    truth = dict(labels=LABELS[:1], objects=BOXES[:1], areas=100 * one, crowd_labels=nothing, crowds=BOXES[:1])
    predicted = dict(scores=np.nan * one, classes=np.ones((1, 2), int), boxes=np.full((1, 2, 4), np.nan))
    broken = Detected(**predicted, **truth, weights=one[0, :1])
    assert scores(broken)["ap"] == 0
    without = dict.fromkeys(("ap", "ap50", "ap75", "recall", "ap50_any_class"), -1.0)
    empty = broken._replace(labels=nothing, scores=one, boxes=BOXES[:1])
    assert scores(empty) == without and scores(empty._replace(weights=0 * one[0, :1])) == without


NAMES = "ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large"  # the first numbers of pycocotools
ROWS, COLUMNS = 160, 240  # of a stored image
Annotation = tuple[tuple[int, int, int, int], int, int, bool]  # left, top, width, height; class; area; crowd


class Predictor(nn.Module):
    """Predicts boxes that are given for each image, which it knows by its grey.

    Attributes:
      boxes: [images Q 4], left, top, width and height in pixels of the stored image.
      logits: [images Q classes+1].
    """

    boxes: Any
    logits: Any

    @nn.compact
    def __call__(self, image: Any, extent: Any = None, train: bool = False) -> ObjectPredictions:
        number = jnp.round(image[:, 0, 0, 0] * 255).astype(jnp.int32)
        left, top, width, height = jnp.moveaxis(jnp.asarray(self.boxes, jnp.float32), -1, 0)
        centred = jnp.stack([top + height / 2, left + width / 2, height, width], -1)
        fractions = centred / jnp.asarray([ROWS, COLUMNS] * 2, jnp.float32)[None, None]
        return ObjectPredictions(jnp.asarray(self.logits, jnp.float32)[number][None], fractions[number][None])


def write_scenes(folder: Path, scenes: list[list[Annotation]]) -> str:
    """A set as TFDS has COCO, of images whose grey is their number; returns its `data_dir`."""
    records = []
    for number, annotations in enumerate(scenes):
        boxes = [(y / ROWS, x / COLUMNS, (y + h) / ROWS, (x + w) / COLUMNS) for (x, y, w, h), *_ in annotations]
        _, labels, areas, crowds = zip(*annotations, strict=True) if annotations else ((), (), (), ())
        image = file(np.full((ROWS, COLUMNS), number, np.uint8))
        columns = {"boxes": boxes, "labels": labels, "area": areas, "is_crowd": crowds}
        records.append({"image": image, "instances": image} | columns)
    return scene_set.prepare(folder, records)


def by_pycocotools(scenes: list[list[Annotation]], predictor: Predictor) -> dict[str, float]:
    """The scores of the annotations as they are and the predictions, by pycocotools alone."""
    annotations, results = [], []
    for image, objects in enumerate(scenes):
        for box, label, area, crowd in objects:
            known = {"id": len(annotations) + 1, "image_id": image, "bbox": list(box), "category_id": label}
            annotations.append(known | {"area": area, "iscrowd": int(crowd)})
        likely = np.asarray(jax.nn.softmax(predictor.logits[image], -1))[:, :-1]
        for box, row in zip(predictor.boxes[image].tolist(), likely, strict=True):
            results.append({"image_id": image, "bbox": box, "category_id": int(row.argmax()), "score": row.max()})
    images, classes = [{"id": i} for i in range(len(scenes))], [{"id": i} for i in range(3)]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = {"images": images, "categories": classes, "annotations": annotations}
        truth.createIndex()
        run = COCOeval(truth, truth.loadRes(results), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return dict(zip(NAMES, run.stats, strict=False)) | {"recall": run.stats[8]}


def predict(boxes: list[list[Any]], labels: list[list[int]], sure: list[list[float]]) -> Predictor:
    """Of each image boxes, their classes, and logits of these."""
    logits = np.asarray(sure, np.float32)[..., None] * np.eye(4, dtype=np.float32)[np.asarray(labels)]
    return Predictor(np.asarray(boxes, np.float32), logits)


def of_set(data_dir: str, predictor: Predictor, *transforms: Any, side: int = COLUMNS) -> dict[str, float]:
    sizes = dict(shape=(side, side, 1), classes=3, objects=6, mean=(0.0,), std=(1.0,), transforms=transforms)
    data = Detections("made_scenes", data_dir=data_dir, **sizes)
    return measure(predictor, SetPrediction(), AveragePrecision(data=data))


def test_predictions_of_a_crowd_are_neither_right_nor_wrong(tmp_path) -> None:
    """Two predictions inside a crowd are surer than the one of the only object: without the crowd the AP is 1/3."""
    scenes: list[list[Annotation]] = [[((10, 10, 30, 40), 0, 1200, False), ((100, 20, 100, 100), 0, 8000, True)]]
    inside = [(10, 10, 30, 40), (110, 30, 40, 40), (150, 60, 30, 50)]
    predictor = predict([inside], [[0, 0, 0]], [[4, 6, 5]])
    known = by_pycocotools(scenes, predictor)
    measured = of_set(write_scenes(tmp_path / "crowd", scenes), predictor)
    assert known["ap"] == pytest.approx(1) and measured["ap"] == pytest.approx(1) and measured["recall"] == 1
    alone = [[annotation for annotation in scenes[0] if not annotation[3]]]
    assert of_set(write_scenes(tmp_path / "alone", alone), predictor)["ap"] == pytest.approx(1 / 3, abs=1e-4)


@pytest.fixture(scope="module")
def random_scenes() -> tuple[list[list[Annotation]], Predictor]:
    """Twelve images: objects of all sizes with areas below their boxes', crowds, images without one or both."""
    rng = np.random.default_rng(3)
    scenes, boxes, labels, sure = [], [], [], []
    for number in range(12):
        annotations, predicted = [], []
        for row in range(0 if number == 5 else 4):
            sides = rng.integers(12, 150, 2)
            left, top = rng.integers(0, [COLUMNS - sides[0] + 1, ROWS - sides[1] + 1])
            box = (int(left), int(top), int(sides[0]), int(sides[1]))
            label, area = int(rng.integers(3)), int(sides.prod() * rng.uniform(0.3, 0.9))
            annotations.append((box, label, area, row == 3 and number % 3 != 0))
            predicted += [(np.array(box) * rng.uniform(0.9, 1.1, 4), label) for _ in range(2)]
        while len(predicted) < 8:
            predicted.append((np.array([*rng.uniform(0, 80, 2), *rng.uniform(20, 80, 2)]), int(rng.integers(3))))
        scenes.append(annotations if number != 8 else [])
        boxes.append([box for box, _ in predicted])
        labels.append([label for _, label in predicted])
        sure.append(rng.uniform(2, 6, 8))
    return scenes, predict(boxes, labels, sure)


def test_the_scores_of_a_set_are_those_of_pycocotools(random_scenes, tmp_path) -> None:
    """Areas are the set's own, in pixels of the stored images, though the model sees others."""
    scenes, predictor = random_scenes
    known, data_dir = by_pycocotools(scenes, predictor), write_scenes(tmp_path, scenes)
    assert min(known.values()) > 0.05 and max(known.values()) < 0.95
    for transforms, side in (((), COLUMNS), ((Stretch(48),), 64)):
        measured = of_set(data_dir, predictor, *transforms, side=side)
        assert {name: measured[name] for name in known} == pytest.approx(known, abs=1e-6)


def test_a_set_without_objects_has_the_scores_of_pycocotools(tmp_path) -> None:
    crowds: list[list[Annotation]] = [[], [((10, 10, 30, 40), 0, 1200, True)]]
    predictor = predict([[(10, 10, 30, 40)]] * 2, [[0]] * 2, [[4]] * 2)
    known = by_pycocotools(crowds, predictor)
    assert set(known.values()) == {-1}
    measured = of_set(write_scenes(tmp_path, crowds), predictor)
    assert measured == dict.fromkeys(("ap", "ap50", "ap75", "recall", "ap50_any_class"), -1)


def test_the_picture_has_the_boxes(tmp_path) -> None:
    """Coloured outlines around the objects in both rows, none in the row of predictions above another threshold."""
    for threshold, shown in ((0.5, True), (1.0, False)):
        evaluation = DetectedObjects(data=Scenes(), count=2, threshold=threshold)
        assert measure(Oracle(), SetPrediction(), evaluation, folder=tmp_path) == {}
        content = (tmp_path / "pictures" / "x" / "7.png").read_bytes()
        picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGBA")).astype(int)
        scale = -(-SIDE // SIZE[0])
        high, wide = SIZE[0] * scale + GAP, SIZE[1] * scale + GAP
        assert picture.shape[0] == 2 * high - GAP
        for row in range(2):
            first = picture[row * high :, -2 * wide + GAP :][: high - GAP, : wide - GAP]
            coloured = np.ptp(first[..., :3], axis=-1) > 30
            assert coloured.any() == (row == 0 or shown)
            if row == 0 or shown:
                top, left, bottom, right = (BOXES[0, 0] * scale).astype(int)
                assert coloured[bottom - 2 : bottom + 2, left + 4 : right - 4].any(0).mean() > 0.9
                assert coloured[top + 4 : bottom - 4, left - 2 : left + 2].any(1).mean() > 0.9


@pytest.mark.parametrize("text", ["Ankle boot 0.97", "a name that is longer than its image 0.50"])
def test_the_text_of_a_box_stays_inside_its_image(text: str) -> None:
    """Of two images beside each other, only the one with the box has coloured pixels, up to its right edge."""
    outline = Outline(np.array([0.5, 0.8, 0.9, 0.9]), 1, text)
    content = grid({"a": np.zeros((2, 96, 96, 3), np.float32)}, {"a": [[outline], []]})
    picture = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    first, gap_and_second = picture[:, -(2 * 96 + GAP) : -(96 + GAP)], picture[:, -(96 + GAP) :]
    assert np.ptp(first[30:48, -12:], axis=-1).max() > 30
    assert np.ptp(first[30:48, 1:8] if len(text) > 20 else first[30:48, 10:30], axis=-1).max() > 30
    assert np.ptp(gap_and_second, axis=-1).max() == 0


def test_the_picture_names_the_probability(tmp_path, monkeypatch) -> None:
    """Class and probability of each predicted box, the class of each true one."""
    texts: list[list[str]] = []

    def record(rows, outlines):
        texts.extend([outline.text for outline in image] for images in outlines.values() for image in images)
        return grid(rows, outlines)

    monkeypatch.setattr("txjax.eval.images.detected_objects.grid", record)
    measure(Oracle(), SetPrediction(), DetectedObjects(data=Scenes(), count=1), folder=tmp_path)
    objects, predicted = texts
    assert [text.split() for text in predicted] == [[name, "1.00"] for name in objects]


def test_the_text_of_a_box_is_inside_the_picture() -> None:
    """Above the box where there is room, else below its upper edge."""
    dark = np.zeros((1, 96, 96, 3), np.float32)
    for top, rows in ((0.5, slice(34, 47)), (0.0, slice(3, 14)), (-0.1, slice(3, 14))):
        outline = Outline(np.array([top, 0.1, 0.9, 0.9]), 1, "cell")
        picture = np.asarray(Image.open(io.BytesIO(grid({"a": dark}, {"a": [[outline]]}))).convert("RGB")).astype(int)
        left = picture.shape[1] - 96
        assert np.ptp(picture[rows, left + 13 : left + 80], axis=-1).max() > 30
