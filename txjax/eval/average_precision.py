"""COCO's average precision of detected boxes."""

import contextlib
import dataclasses
import io
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Dataset
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.nn import ObjectPredictions
from txjax.objectives import Objective, boxes
from txjax.types import Batch, PyTree, UserError, require

_SCORES = ("ap", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")  # in the order of pycocotools
_Leaf = Any  # an array of JAX or of numpy
_RECALL = 8  # the place of the recall among its numbers


class Detected(NamedTuple):
    """The predictions for a batch, and its objects.

    Attributes:
      scores: float32 [B Q], probabilities of the classes.
      classes: int32 [B Q], the most probable class of each prediction.
      boxes: float32 [B Q 4], (top, left, bottom, right) in pixels of the image.
      labels: int32 [B N], -1 for padding.
      objects: float32 [B N 4], their boxes in pixels.
      weights: float32 [B].
    """

    scores: _Leaf
    classes: _Leaf
    boxes: _Leaf
    labels: _Leaf
    objects: _Leaf
    weights: _Leaf


def detected(found: ObjectPredictions, batch: Batch) -> Detected:
    """The predictions of the model's last layer, each with its most probable class."""
    likely = jax.nn.softmax(found.logits[-1], -1)[..., :-1]
    sides = jnp.asarray(batch["image"].shape[1:3], jnp.float32)[None]
    extent = batch["extent"].astype(jnp.float32) if "extent" in batch else jnp.tile(sides, (len(likely), 1))
    return Detected(
        likely.max(-1),
        likely.argmax(-1).astype(jnp.int32),
        boxes.corners(found.boxes[-1]) * jnp.tile(extent, 2)[:, None],
        batch["box_labels"],
        batch["boxes"] * jnp.tile(sides, 2)[:, None],
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

    Every prediction counts as one of its most probable class, as in DETR. Pixels are of the transformed image, so
    "small" (below 32^2), "medium" and "large" (above 96^2) depend on its size. Examples of weight 0 are left out.

    Scores: `ap`, the mean over IoUs from 0.5 to 0.95 and over classes; `ap50` and `ap75`, at these IoUs; `ap_small`,
    `ap_medium` and `ap_large`, by the area of the object, of areas that the set has; `recall`, with 100 predictions an
    image; `ap50_any_class`, the second one without regard to classes.
    """

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return (*dict.fromkeys((*objective.required_keys, "boxes", "box_labels", "weights")),)

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        require("pycocotools", "pycocotools", "eval", "vision")
        check_boxes(model, objective, self.data)

    def start(self, context: Context) -> Evaluate:
        model, objective = context.model, context.objective

        def predict(variables: PyTree, batch: Batch) -> PyTree:
            return detected(model.apply(variables, **objective.inputs(batch), train=False), batch)

        program = context.program(predict)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            found = list(context.over(program, variables, context.source, self.max_batches))
            return scores(Detected(*(np.concatenate(column) for column in zip(*found, strict=True))))

        return evaluate


def scores(found: Detected) -> dict[str, float]:
    """The scores of `AveragePrecision`, from numpy arrays."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    images = [int(image) for image in np.flatnonzero(found.weights > 0)]
    answers: list[dict[str, Any]] = []
    predictions: list[dict[str, Any]] = []
    for image in images:
        for number in np.flatnonzero(found.labels[image] >= 0).tolist():
            box = _corner_and_size(found.objects[image, number])
            area = {"area": box[2] * box[3], "iscrowd": 0, "id": len(answers) + 1}
            answers.append({**_entry(image, found.labels[image, number], box), **area})
        for number, score in enumerate(np.nan_to_num(found.scores[image])):
            box = _corner_and_size(np.nan_to_num(found.boxes[image, number]))
            predictions.append({**_entry(image, found.classes[image, number], box), "score": float(score)})
    known = {entry["category_id"] for entry in answers + predictions}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints
        truth = COCO()
        truth.dataset = {
            "images": [{"id": image} for image in images],
            "categories": [{"id": number} for number in sorted(known)],
            "annotations": answers,
        }
        truth.createIndex()
        claims = truth.loadRes(predictions)
        numbers = []
        for classes in (1, 0):
            run = COCOeval(truth, claims, "bbox")
            run.params.useCats = classes
            run.evaluate()
            run.accumulate()
            run.summarize()
            numbers.append(run.stats)
    made = dict(zip(_SCORES, numbers[0], strict=False))
    made |= {"recall": numbers[0][_RECALL], "ap50_any_class": numbers[1][1]}
    return {name: max(float(x), 0.0) for name, x in made.items() if x >= 0 or name in ("ap", "ap50")}


def _entry(image: int, label: Any, box: list[float]) -> dict[str, Any]:
    return {"image_id": image, "category_id": int(label), "bbox": box}


def _corner_and_size(box: np.ndarray) -> list[float]:
    """(top, left, bottom, right) -> left, top, width, height."""
    top, left, bottom, right = (float(x) for x in box)
    return [left, top, right - left, bottom - top]
