"""The quality of masks after each of several clicks, and a picture of them."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from txjax.data import Dataset
from txjax.data.point_labels import NO_POINT
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.pictures import grid
from txjax.eval.results import COUNT, GIVEN, real_rows
from txjax.objectives import Objective
from txjax.objectives.clicks import Answers, Points, central_click, interact
from txjax.objectives.mask_losses import mask_iou
from txjax.types import Batch, PyTree, config_field

# Colours of an image's objects in turn, of clicks on an object, and of clicks off it.
OBJECTS = ((0.90, 0.62, 0.00), (0.34, 0.71, 0.91), (0.80, 0.47, 0.65), (0.94, 0.89, 0.26))
CLICKS = {1: (0.0, 0.9, 0.3), 0: (0.9, 0.1, 0.1)}


@dataclasses.dataclass
class ClickedMasks(Evaluator):
    """Mean IoU of all objects after 1, 2, ... clicks, and a picture of the first images with masks and clicks.

    The first click is the place of an object that is farthest from its border; a later one is the place farthest from
    the border of what is wrong, on the object or off it (Kirillov et al. 2023, D.1). A click is in the resolution of
    the predicted masks; IoU is in the image's. Of the masks after one click the one of the highest predicted IoU
    counts. The picture is `pictures/NAME/STEP.png`.

    Scores: `iou_1`, `iou_2`, ....

    Attributes:
      clicks: on each object.
      count: the images of the picture.
    """

    clicks: int = config_field(3, at_least=1)
    count: int = config_field(8, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return "image", "masks", "box_labels", "weights"

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if not hasattr(model, "embed_image") or not hasattr(model, "predict"):
            raise UserError("eval", "a run whose model answers prompts, such as SAM()", type(model).__name__)

    def start(self, context: Context) -> Evaluate:
        model = context.model

        def answer_clicks(variables: PyTree, batch: Batch) -> tuple[list[Bool[Array, "B N H W"]], Points]:
            """The masks after each click in the resolution of the image, and all clicks."""
            rounds = model.apply(variables, batch["image"], batch["masks"], method=self.interact)
            size = batch["masks"].shape
            return [jax.image.resize(mask, size, "linear") > 0 for mask in rounds.masks()], rounds.points

        def measure(variables: PyTree, batch: Batch) -> PyTree:
            is_object = (batch["box_labels"] >= 0) & (batch["masks"] > 0).any((2, 3))
            weights = is_object * batch["weights"][:, None]
            masks, _ = answer_clicks(variables, batch)
            ious = [mask_iou(mask, batch["masks"] > 0) for mask in masks]
            overlaps = {f"iou_{i}": (iou * weights).sum(1) for i, iou in enumerate(ious, 1)}
            counts = {name + COUNT: weights.sum(1) for name in overlaps}
            return {GIVEN: is_object.sum(1), "weights": batch["weights"], **overlaps, **counts}

        def paint(variables: PyTree, batch: Batch) -> PyTree:
            masks, clicks = answer_clicks(variables, batch)
            is_object = (batch["box_labels"] >= 0)[:, :, None, None]
            shown = masks[0] & is_object, masks[-1] & is_object, (batch["masks"] > 0) & is_object
            return batch["image"], shown, *clicks

        measured = context.program(measure)
        painted = context.program(paint)
        batches = -(-self.count // context.batch_size)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            pictures = list(context.run_batches(painted, variables, context.source, batches))
            count = min(self.count, len(context.source))
            self.draw(context, step, jax.tree.map(lambda *parts: np.concatenate(parts)[:count], *pictures))
            rows = real_rows(context.run_batches(measured, variables, context.source, self.max_batches))
            return self.keep_and_rescore(context, rows)

        return evaluate

    def interact(self, model: Any, image: jax.Array, masks: jax.Array) -> Answers:
        """The rounds of clicks on a bound model."""

        def first(target: jax.Array) -> Points:
            point, label = central_click(target, target)
            padding = jnp.zeros_like(point), jnp.full_like(label, NO_POINT)
            return jnp.concatenate([point, padding[0]], 2), jnp.concatenate([label, padding[1]], 2)

        def click(number: jax.Array, mask: jax.Array, target: jax.Array) -> Points:
            return central_click(mask ^ target, target)

        return interact(model, image, masks, first, click, jnp.ones((1, self.clicks - 1), bool), False)

    def draw(self, context: Context, step: int, pictures: PyTree) -> None:
        """Writes the picture: the masks after the first and after the last click, and the true ones."""
        images, (once, last, true), points, labels = pictures
        mean, deviation = (np.asarray(getattr(self.data, name, ()), np.float32) for name in ("mean", "std"))
        if mean.size:
            images = images * deviation + mean
        rows = {"1 click": tint_masks(images, once), f"{self.clicks} clicks": tint_masks(images, last)}
        mark_points(rows["1 click"], points[:, :, :1], labels[:, :, :1])
        mark_points(rows[f"{self.clicks} clicks"], points, labels)
        context.write("pictures", step, "png", grid(rows | {"true": tint_masks(images, true)}))


def tint_masks(
    images: Float[np.ndarray, "B H W C"], masks: Bool[np.ndarray, "B N H W"]
) -> Float[np.ndarray, "B H W 3"]:
    """Images from 0 to 1 in grey, half of them in an object's colour where its mask is."""
    shown = np.repeat(images.mean(-1, keepdims=True), 3, -1).clip(0, 1)
    for number in range(masks.shape[1]):
        colour = np.asarray(OBJECTS[number % len(OBJECTS)], np.float32)
        shown = np.where(masks[:, number, :, :, None], (shown + colour) / 2, shown)
    return shown


def mark_points(
    images: Float[np.ndarray, "B H W 3"], points: Float[np.ndarray, "B N P 2"], labels: np.ndarray
) -> Float[np.ndarray, "B H W 3"]:
    """The images, with a pixel in the colour of its label for each click, drawn into them."""
    sides = np.asarray(images.shape[1:3])
    for where in zip(*np.nonzero(labels >= 0), strict=True):
        row, column = np.minimum((points[where] * sides).astype(int), sides - 1)
        images[where[0], row, column] = CLICKS[int(labels[where])]
    return images
