"""COCO's average precision of predictions whose score is known, and the picture of boxes."""

import dataclasses
import io
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from txjax.data import Dataset
from txjax.eval import AveragePrecision, DetectedObjects
from txjax.eval.average_precision import Detected, scores
from txjax.eval.pictures import GAP, SIDE, Outline, grid
from txjax.nn import ObjectPredictions
from txjax.objectives import SetPrediction
from txjax.types import spec

from helpers.evaluations import measure

SIZE, EXTENT = (40, 60), (30, 50)  # padded, and not
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
    one = np.ones((1, 2), np.float32)
    broken = Detected(np.nan * one, np.ones((1, 2), int), np.full((1, 2, 4), np.nan), LABELS[:1], BOXES[:1], one[0, :1])
    assert scores(broken)["ap"] == 0
    empty = broken._replace(labels=np.full((1, 2), -1), scores=one, boxes=BOXES[:1])
    assert scores(empty) == {"ap": 0, "ap50": 0}


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


def test_the_text_of_a_box_is_inside_the_picture() -> None:
    """Above the box where there is room, else below its upper edge."""
    dark = np.zeros((1, 96, 96, 3), np.float32)
    for top, rows in ((0.5, slice(34, 47)), (0.0, slice(3, 14)), (-0.1, slice(3, 14))):
        outline = Outline(np.array([top, 0.1, 0.9, 0.9]), 1, "cell")
        picture = np.asarray(Image.open(io.BytesIO(grid({"a": dark}, {"a": [[outline]]}))).convert("RGB")).astype(int)
        left = picture.shape[1] - 96
        assert np.ptp(picture[rows, left + 13 : left + 80], axis=-1).max() > 30
