"""COCO's average precision of detected boxes."""

import contextlib
import dataclasses
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from txjax.data import Dataset
from txjax.errors import UserError, require
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.nn import ObjectPredictions
from txjax.objectives import Objective, boxes
from txjax.types import Batch, PyTree

_SCORES = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")  # in the order of pycocotools
_BY_AREA = _SCORES[3:]
_Leaf = Any  # an array of JAX or of numpy
_RECALL = 8  # the index of the recall among its numbers


class Detected(NamedTuple):
    """The predictions for a batch, its objects, and its crowds. Boxes are (top, left, bottom, right) in pixels.

    Attributes:
      scores: float32 [B Q], probabilities of the classes.
      classes: int32 [B Q], the most probable class of each prediction.
      boxes: float32 [B Q 4], the predicted boxes.
      labels: int32 [B N], -1 for padding.
      objects: float32 [B N 4], the objects' boxes.
      areas: float32 [B N], the objects' areas in pixels.
      crowd_labels: int32 [B M], -1 for padding.
      crowds: float32 [B M 4], the crowds' boxes.
      weights: float32 [B].
    """

    scores: _Leaf
    classes: _Leaf
    boxes: _Leaf
    labels: _Leaf
    objects: _Leaf
    areas: _Leaf
    crowd_labels: _Leaf
    crowds: _Leaf
    weights: _Leaf


def shown_extent(batch: Batch) -> Float[Array, "B 2"]:
    """Rows and columns of the images without padding."""
    if "extent" in batch:
        return batch["extent"].astype(jnp.float32)
    return jnp.tile(jnp.asarray(batch["image"].shape[1:3], jnp.float32)[None], (len(batch["image"]), 1))


def stored_extent(batch: Batch) -> Float[Array, "B 2"]:
    """Rows and columns of what the images show of the stored ones, where these are known; else `shown_extent`."""
    return batch["stored_extent"] if "stored_extent" in batch else shown_extent(batch)


def detect_objects(predictions: ObjectPredictions, batch: Batch, extent: Float[Array, "B 2"]) -> Detected:
    """The predictions of the model's last layer, each with its most probable class.

    Args:
      extent: rows and columns of the images without padding, in the pixels of the result.
    """
    likely = jax.nn.softmax(predictions.logits[-1], -1)[..., :-1]
    scale = jnp.tile(extent, 2)[:, None]
    objects = boxes.remove_padding(batch["boxes"], batch) * scale
    crowds = batch.get("crowd_boxes", batch["boxes"][:, :0])
    return Detected(
        likely.max(-1),
        likely.argmax(-1).astype(jnp.int32),
        boxes.corners(predictions.boxes[-1]) * scale,
        batch["box_labels"],
        objects,
        batch.get("box_areas", boxes.area(objects)),
        batch.get("crowd_labels", batch["box_labels"][:, :0]),
        boxes.remove_padding(crowds, batch) * scale,
        batch["weights"],
    )


def check_boxes(model: Any, objective: Objective, data: Dataset) -> None:
    """Raises UserError unless the model predicts boxes and the data has them."""
    output, _ = outline(model, objective, data)
    if not isinstance(output, ObjectPredictions):
        raise UserError("config.model.head", "ObjectBoxes(...)", type(output).__name__)


@dataclasses.dataclass
class AveragePrecision(Evaluator):
    """The average precision of COCO (Lin et al. 2014), by pycocotools.

    Every prediction counts as one of its most probable class, as in DETR. "Small" (below 32^2 pixels), "medium" and
    "large" (above 96^2) are areas in the stored image: `box_areas` of the data, or without it areas of boxes; without
    `stored_extent`, pixels of the transformed image. Predictions of crowds (`crowd_boxes`) are neither right nor wrong.
    Examples of weight 0 are left out.

    Scores: `ap`, the mean over IoUs from 0.5 to 0.95 and over classes; `ap50` and `ap75`, at these IoUs; `ap_small`,
    `ap_medium` and `ap_large`, by the area of the object, of areas that the set has; `recall`, with 100 predictions an
    image; `ap50_any_class`, the second one without regard to classes. Without objects they are -1, as in pycocotools.
    """

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*dict.fromkeys((*objective.required_keys, "boxes", "box_labels", "weights")),)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("pycocotools", "pycocotools", "eval", "vision")
        check_boxes(model, objective, self.data)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        objective = context.objective

        def predict(variables: PyTree, batch: Batch) -> PyTree:
            output = model.apply(variables, **objective.inputs(model, batch), train=False)
            return detect_objects(output, batch, stored_extent(batch))

        program = context.program(predict)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            batches = list(context.run_batches(program, variables, context.source, self.max_batches))
            return scores(Detected(*(np.concatenate(column) for column in zip(*batches, strict=True))))

        return evaluate


def scores(result: Detected) -> dict[str, float]:
    """The scores of `AveragePrecision`, from numpy arrays."""
    images = [int(image) for image in np.flatnonzero(result.weights > 0)]
    truth: list[dict[str, Any]] = []
    claims: list[dict[str, Any]] = []
    for image in images:
        for row in np.flatnonzero(result.labels[image] >= 0).tolist():
            entry = _entry(image, result.labels[image, row], result.objects[image, row])
            truth.append(entry | {"area": float(result.areas[image, row]), "iscrowd": 0})
        for row in np.flatnonzero(result.crowd_labels[image] >= 0).tolist():
            truth.append(_entry(image, result.crowd_labels[image, row], result.crowds[image, row]) | {"iscrowd": 1})
        for row, score in enumerate(np.nan_to_num(result.scores[image])):
            entry = _entry(image, result.classes[image, row], np.nan_to_num(result.boxes[image, row]))
            claims.append(entry | {"score": float(score)})
    by_class, of_any_class = coco_statistics(images, truth, claims)
    numbers = dict(zip(_SCORES, by_class, strict=False)) | {"recall": by_class[_RECALL]}
    numbers |= {"ap50_any_class": of_any_class[_SCORES.index("ap50")]}
    return {name: float(x) for name, x in numbers.items() if x >= 0 or name not in _BY_AREA}


def coco_statistics(
    images: Sequence[int], truth: Sequence[dict[str, Any]], claims: Sequence[dict[str, Any]]
) -> tuple[Float[np.ndarray, "12"], Float[np.ndarray, "12"]]:
    """The twelve numbers of pycocotools, by class and without regard to classes; -1 where there is no object.

    Args:
      images: numbers of all images, with objects or without.
      truth, claims: annotations and results in COCO's format, without numbers of their own.
    """
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    classes = sorted({entry["category_id"] for entry in [*truth, *claims]})
    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        sides = []
        for entries in (truth, claims):  # not by COCO.loadRes, which fails where there is no prediction
            side = COCO()
            side.dataset = {
                "images": [{"id": image} for image in images],
                "categories": [{"id": number} for number in classes],
                "annotations": [entry | {"id": number} for number, entry in enumerate(entries, 1)],
            }
            side.createIndex()
            sides.append(side)
        statistics = []
        for use_classes in (1, 0):
            run = COCOeval(*sides, "bbox")
            run.params.useCats = use_classes
            run.evaluate()
            run.accumulate()
            run.summarize()
            statistics.append(run.stats)
    return statistics[0], statistics[1]


def _entry(image: int, label: Any, box: np.ndarray) -> dict[str, Any]:
    """An annotation of a box (top, left, bottom, right), which COCO has as left, top, width and height."""
    top, left, bottom, right = (float(x) for x in box)
    height = bottom - top
    width = right - left
    return {"image_id": image, "category_id": int(label), "bbox": [left, top, width, height], "area": height * width}
