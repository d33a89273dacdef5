"""Promptable segmentation: the masks of objects from clicks and boxes, over several rounds."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.data.point_labels import CORNERS, NO_POINT
from txjax.objectives.base import Objective, apply_model, check_members, example_keys, select_keys
from txjax.objectives.clicks import Answers, Points, interact, random_click
from txjax.objectives.mask_losses import dice, focal, mask_iou
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field

LOSSES = "focal", "dice", "predicted_iou"
MOST = 20 / 1024  # of the image's side, that a corner of a box is away from the true one (Kirillov et al. 2023, A)


@dataclasses.dataclass
class PromptedMasks(Objective):
    """Focal and dice loss of each object's mask, and the squared error of its predicted IoU (Kirillov et al. 2023, A).

    Every object of an image is prompted. Its first prompt is a random place of it, or its box; later ones are random
    places where the prediction is wrong, and the logits of that prediction. The answers to the first prompt are several
    masks, of which the one with the least loss counts; the IoUs of all of them are predicted. A term is the mean over
    the rounds, in the resolution of the predicted masks. Objects that nothing is left of in it do not count.

    Attributes:
      clicks: rounds with a new prompt.
      refinements: rounds whose only new prompt is the mask of the round before: the last one, the others anywhere after
        the first one.
      boxes: how many of the first prompts are boxes.
      deviation: of a box's corners, the standard deviation over its side; no more than 20 pixels of 1,024.
      focal, dice, iou: weights of the terms, which are logged with them.
    """

    clicks: int = config_field(9, at_least=1)
    refinements: int = config_field(2, at_least=0)
    boxes: float = config_field(0.5, at_least=0, at_most=1)
    deviation: float = config_field(0.1, at_least=0)
    focal: float = config_field(20.0, at_least=0)
    dice: float = config_field(1.0, at_least=0)
    iou: float = config_field(1.0, at_least=0)

    members: ClassVar[tuple[str, ...]] = ("embed_image", "predict", "finer")
    models: ClassVar[str] = "SAM"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "masks", "boxes", "box_labels", "weights")

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        return select_keys(batch, "image")

    def init(self, model: Any, rngs: dict[str, jax.Array], batch: Batch) -> PyTree:
        self.check_model(model, batch)

        def every_prompt(model: Any, image: jax.Array) -> Any:
            embedded = model.embed_image(image)
            one = len(image), 1
            points = jnp.zeros((*one, 1, 2), jnp.float32)
            labels = jnp.zeros((*one, 1), jnp.int32)
            mask = jnp.zeros((*one, *(model.finer * side for side in embedded.shape[1:3])), jnp.float32)
            return model.predict(embedded, points, labels, mask)

        return model.init(rngs, **self.inputs(model, batch), method=every_prompt)

    def check_model(self, model: Any, batch: Batch) -> None:
        check_members(model, self)  # the model itself is not called

    def first(self, keys: jax.Array, target: jax.Array, boxes: jax.Array) -> Points:
        """Two points for each object: a random place and none, or the corners of its box."""
        of_click, of_box, of_choice = (jax.vmap(jax.random.fold_in, (0, None))(keys, i) for i in range(3))
        point, label = random_click(of_click, target, target)
        clicked = jnp.concatenate([point, jnp.zeros_like(point)], 2), jnp.concatenate([label, label * 0 + NO_POINT], 2)
        sides = jnp.tile(boxes[..., 2:] - boxes[..., :2], (1, 1, 2))
        noise = self.deviation * jax.vmap(lambda key: jax.random.normal(key, boxes.shape[1:]))(of_box)
        corners = boxes + (noise * sides).clip(-MOST, MOST)
        boxed = jax.vmap(lambda key: jax.random.uniform(key, boxes.shape[1:2]))(of_choice)[..., None] < self.boxes
        points = jnp.where(boxed[..., None], corners.reshape(point.shape[:2] + (2, 2)), clicked[0])
        return points, jnp.where(boxed, jnp.asarray(CORNERS, jnp.int32)[None, None], clicked[1])

    def has_click(self, keys: jax.Array) -> jax.Array:
        """Whether each round after the first one has a new prompt, of B examples: bool [B R]."""
        free = self.clicks - 1 + max(self.refinements - 1, 0)
        last = min(self.refinements, 1)
        order = jax.vmap(lambda key: jax.random.permutation(key, free))(keys)
        return jnp.pad(order < self.clicks - 1, ((0, 0), (0, last)))

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        keys = example_keys(key, batch)
        of_prompts, of_clicks, of_rounds = (jax.vmap(jax.random.fold_in, (0, None))(keys, i) for i in range(3))

        def click(number: jax.Array, predicted: jax.Array, target: jax.Array) -> Points:
            return random_click(jax.vmap(jax.random.fold_in, (0, None))(of_clicks, number), predicted ^ target, target)

        def rounds(model: Any, image: jax.Array, train: bool) -> Answers:
            first = functools.partial(self.first, of_prompts, boxes=batch["boxes"])
            return interact(model, image, batch["masks"], first, click, self.has_click(of_rounds), train)

        answers, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train, method=rounds)
        is_object = (batch["box_labels"] >= 0) & answers.target.any((2, 3))
        weights = is_object * batch["weights"][:, None]
        sums = self.terms(answers.first.logits, answers.first.ious, answers.target)
        count = 1
        if answers.later is not None:
            later = jax.vmap(self.terms, (0, 0, None))(answers.later.logits, answers.later.ious, answers.target)
            sums = jax.tree.map(lambda one, others: one + others.sum(0), sums, later)
            count = 1 + len(answers.later.ious)
        losses = {
            name: Mean.of(factor * x / count, weights)
            for name, factor, x in zip(LOSSES, (self.focal, self.dice, self.iou), sums, strict=True)
        }
        masks = answers.masks()
        ious = {"iou_first": mask_iou(masks[0] > 0, answers.target), "iou": mask_iou(masks[-1] > 0, answers.target)}
        return aux.outcome(losses, {name: Mean.of(iou, weights) for name, iou in ious.items()})

    def terms(self, logits: jax.Array, ious: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Focal and dice loss of the best of M masks, the mean squared error of their predicted IoUs, [B N] each."""
        whole = jnp.broadcast_to(target[:, :, None], logits.shape)
        losses_of_masks = focal(logits, whole), dice(logits, whole)
        best = (self.focal * losses_of_masks[0] + self.dice * losses_of_masks[1]).argmin(2)[:, :, None]
        error = jnp.square(ious - mask_iou(logits > 0, whole)).mean(2)
        first, second = (jnp.take_along_axis(values, best, 2)[:, :, 0] for values in losses_of_masks)
        return first, second, error
