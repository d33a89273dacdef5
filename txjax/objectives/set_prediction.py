"""Detection as the prediction of a set: each object is matched with one prediction."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.nn import ObjectPredictions
from txjax.objectives import boxes
from txjax.objectives.base import Objective, apply_model
from txjax.objectives.data_checks import check_classes
from txjax.objectives.losses import correct, cross_entropy
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field, is_on

_TERMS = ("class", "box", "giou")


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Objects:
    """The objects of a batch.

    Attributes:
      labels: int32 [B N], any for a row of padding.
      boxes: float32 [B N 4], row and column of the centre, height, width, as fractions of the image without padding.
      is_object: bool [B N], which rows are objects.
      attributes: int32 [B N], -1 where an object has none, or where there is no object. If None, no object has one.
    """

    labels: Int[Array, "B N"]
    boxes: Float[Array, "B N 4"]
    is_object: Bool[Array, "B N"]
    attributes: Int[Array, "B N"] | None = None

    @staticmethod
    def of(batch: Batch) -> "Objects":
        """From `boxes`, `box_labels` and `box_attributes`; boxes are fractions of the padded image there."""
        shown = boxes.remove_padding(batch["boxes"], batch)
        labels = batch["box_labels"]
        return Objects(jnp.maximum(labels, 0), boxes.centre_boxes(shown), labels >= 0, batch.get("box_attributes"))


@dataclasses.dataclass
class SetPrediction(Objective):
    """The loss of DETR (Carion et al. 2020, 3.1), for a model whose head is `ObjectBoxes`.

    Objects and predictions are matched so that the sum of these costs is least, and each matched pair has these losses:

        cost        - p(class) + box * |box - predicted box| + giou * (1 - GIoU)
        class       cross entropy of the class; of "no object", of weight no_object, where none is matched
        box         box * |box - predicted box|, summed over row and column of the centre, height and width
        giou        giou * (1 - GIoU)
        attribute   attribute * cross entropy of the attribute, for a head that is `ObjectAttributes`; no cost

    The first is a weighted mean over predictions, the others are means over the objects of the batch, the last one over
    those with an attribute. Training adds the same losses of the predictions after every layer but the last, matched by
    themselves: `auxiliary_class`, ...

    Metrics: `class_accuracy`, `iou` and `attribute_accuracy` of the matched predictions.

    Attributes:
      box, giou: the weights of the two losses of boxes, in the costs too.
      no_object: the weight of a prediction that no object is matched with, in the loss of classes.
      attribute: the weight of the loss of attributes.
      auxiliary: the weight of the losses of the layers before the last.
    """

    box: float = config_field(5.0, at_least=0, traced=True)
    giou: float = config_field(2.0, at_least=0, traced=True)
    no_object: float = config_field(0.1, at_least=0, traced=True)
    attribute: float = config_field(1.0, at_least=0, traced=True)
    auxiliary: float = config_field(1.0, at_least=0, traced=True, off=0)

    models: ClassVar[str] = "DETR"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "boxes", "box_labels", "weights")

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        check_classes(model, data)
        queries = getattr(model, "queries", None)
        objects = data.spec()["boxes"].shape[0]
        if queries is not None and queries < objects:
            raise UserError("config.model.queries", f"at least {objects}, the objects of config.data", queries)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if not isinstance(output, ObjectPredictions):
            hint = "its head must be ObjectBoxes(...)"
            raise UserError("config.model", "a model of boxes, for SetPrediction", type(model).__name__, hint=hint)
        if output.attributes is not None and "box_attributes" not in batch:
            expected = "the feature of the objects' attributes, which the model's head predicts"
            raise UserError("config.data.attribute", expected, None)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        predictions, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train)
        self.check_output(model, predictions, batch)
        objects = Objects.of(batch)
        weights = batch["weights"]
        last = jax.tree.map(lambda x: x[-1:], predictions)
        losses, metrics = self.compare(last, objects, weights)
        if train and is_on(self.auxiliary) and len(predictions.logits) > 1:
            before, _ = self.compare(jax.tree.map(lambda x: x[:-1], predictions), objects, weights)
            losses |= {f"auxiliary_{name}": Mean(self.auxiliary * x.total, x.count) for name, x in before.items()}
        return aux.outcome(losses, metrics)

    def compare(
        self, predictions: ObjectPredictions, objects: Objects, weights: Float[Array, "B"]
    ) -> tuple[dict[str, Mean], dict[str, Mean]]:
        """The losses of all layers, each a sum over the layers, and the metrics of the last one."""
        layers, batch, queries, classes = predictions.logits.shape
        chosen = self.match(predictions, objects)
        example = jnp.arange(batch)[None, :, None]
        layer = jnp.arange(layers)[:, None, None]
        empty = jnp.full((layers, batch, queries), classes - 1, jnp.int32)
        labels = empty.at[layer, example, chosen].set(jnp.where(objects.is_object, objects.labels, classes - 1)[None])
        surprise = cross_entropy(predictions.logits, labels) * jnp.where(labels == classes - 1, self.no_object, 1.0)
        present = objects.is_object.sum(1)
        count = (weights * (present + self.no_object * (queries - present))).sum()
        object_weights = objects.is_object * weights[:, None]
        predicted = jnp.take_along_axis(predictions.boxes, chosen[..., None], axis=2)
        real_boxes = jnp.broadcast_to(objects.boxes[None], predicted.shape)
        distance = jnp.abs(predicted - real_boxes).sum(-1)
        corners = boxes.corners(predicted)
        wanted = boxes.corners(real_boxes)
        apart = 1 - boxes.generalised_iou(corners, wanted)
        terms = [Mean((surprise * weights[None, :, None]).sum(), count)]
        for weight, values in ((self.box, distance), (self.giou, apart)):
            terms.append(Mean((weight * values * object_weights[None]).sum(), object_weights.sum()))
        rows = jnp.take_along_axis(predictions.logits[-1], chosen[-1][..., None], axis=1)
        scores = {"class_accuracy": correct(rows, objects.labels), "iou": boxes.iou(corners[-1], wanted[-1])}
        losses = dict(zip(_TERMS, terms, strict=True))
        metrics = {name: Mean.of(x, object_weights) for name, x in scores.items()}
        if predictions.attributes is not None and objects.attributes is not None:
            logits = jnp.take_along_axis(predictions.attributes, chosen[..., None], axis=2)
            has_attribute = (objects.attributes >= 0) * object_weights
            labels = jnp.maximum(objects.attributes, 0)
            surprise = cross_entropy(logits, jnp.broadcast_to(labels[None], logits.shape[:-1]))
            losses["attribute"] = Mean((self.attribute * surprise * has_attribute[None]).sum(), has_attribute.sum())
            metrics["attribute_accuracy"] = Mean.of(correct(logits[-1], labels), has_attribute)
        return losses, metrics

    def match(self, predictions: ObjectPredictions, objects: Objects) -> Int[Array, "layers B N"]:
        """The prediction of each object, in every layer; rows of padding have some that are left over."""
        layers, batch, queries, _ = predictions.logits.shape
        rows = layers * batch
        count = objects.labels.shape[1]
        wanted = jnp.broadcast_to(objects.labels[None, :, None], (layers, batch, queries, count))
        likely = jnp.take_along_axis(jax.nn.softmax(predictions.logits, -1), wanted, axis=-1)
        predicted, targets = jnp.broadcast_arrays(predictions.boxes[:, :, :, None], objects.boxes[None, :, None])
        distance = jnp.abs(predicted - targets).sum(-1)
        overlap = boxes.generalised_iou(boxes.corners(predicted), boxes.corners(targets))
        costs = self.box * distance - likely - self.giou * overlap
        every = jnp.broadcast_to(objects.is_object[None], (layers, batch, count)).reshape(rows, count)
        chosen = boxes.assign(costs.swapaxes(2, 3).reshape(rows, count, queries), every)
        return chosen.reshape(layers, batch, count)
