"""The loss of DETR: a transcript with scipy's matching, padding, auxiliary layers, what is refused."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from txjax.data import Detections
from txjax.data.loading.default_eval_data import fill_default_fields
from txjax.models import Stage
from txjax.models.vision.detr import DETR
from txjax.models.vision.meta_former import MetaFormer
from txjax.nn import Classes, ConvEmbedding, MeanTokens, ObjectBoxes, ObjectPredictions
from txjax.objectives import SetPrediction
from txjax.objectives.set_prediction import Objects
from txjax.types import UserError

from helpers.arrays import on_jax

LAYERS, B, Q, N, CLASSES = 3, 4, 6, 4, 5
LABELS = np.array([[2, 0, -1, -1], [-1, -1, -1, -1], [4, 4, 1, 3], [1, -1, -1, -1]], np.int32)
WEIGHTS = np.array([1, 1, 1, 0], np.float32)


class Fixed:
    """A model whose output is given."""

    def __init__(self, predictions: ObjectPredictions):
        self.predictions = predictions

    def apply(self, *args: Any, train: bool, **kwargs: Any) -> Any:
        return (self.predictions, {}) if train else self.predictions


def predictions() -> ObjectPredictions:
    rng = np.random.default_rng(1)
    logits, predicted = rng.normal(size=(LAYERS, B, Q, CLASSES + 1)), rng.uniform(0.2, 0.8, (LAYERS, B, Q, 4))
    return on_jax(ObjectPredictions(*(x.astype(np.float32) for x in (logits, predicted))))


def batch(**more: Any) -> dict[str, jax.Array]:
    """Boxes as fractions of images of 10 x 20 pixels."""
    rng = np.random.default_rng(2)
    corner = rng.uniform(0, 0.5, (B, N, 2))
    boxes = np.concatenate([corner, corner + rng.uniform(0.1, 0.4, (B, N, 2))], -1).astype(np.float32)
    boxes[LABELS < 0] = 0
    given = {"id": np.arange(B, dtype=np.int32), "image": np.zeros((B, 10, 20, 1), np.float32), "weights": WEIGHTS}
    return on_jax(given | {"boxes": boxes, "box_labels": LABELS} | more)


def giou(a: np.ndarray, b: np.ndarray) -> float:
    """Of two boxes (row, column, height, width)."""
    lengths, spans = [], []
    for axis in range(2):
        ends = [(x[axis] - x[axis + 2] / 2, x[axis] + x[axis + 2] / 2) for x in (a, b)]
        lengths.append(max(min(ends[0][1], ends[1][1]) - max(ends[0][0], ends[1][0]), 0))
        spans.append(max(ends[0][1], ends[1][1]) - min(ends[0][0], ends[1][0]))
    inside, around = np.prod(lengths), np.prod(spans)
    union = a[2] * a[3] + b[2] * b[3] - inside
    return float(inside / union - (around - union) / around)


def transcript(layer: int, given: Any, box: float, generalised: float, none: float) -> dict[str, float]:
    """Equations 1 and 2 and appendix A.2 of the paper, image by image."""
    logits, predicted = (np.asarray(x[layer], np.float64) for x in predictions()[:2])
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    total, weight, distance, apart, objects = 0.0, 0.0, 0.0, 0.0, 0
    for i in np.flatnonzero(WEIGHTS):
        real = LABELS[i] >= 0
        height, width = given.get("extent", np.tile([10, 20], (B, 1)))[i] / np.array([10, 20])
        corners, labels = given["boxes"][i, real] / [height, width, height, width], LABELS[i][real]
        wanted = np.concatenate([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]], -1)
        costs = np.zeros((Q, len(labels)))
        for q, n in np.ndindex(costs.shape):
            near, overlap = np.abs(predicted[i, q] - wanted[n]).sum(), giou(predicted[i, q], wanted[n])
            costs[q, n] = box * near - generalised * overlap - np.exp(log_p[i, q, labels[n]])
        rows, columns = linear_sum_assignment(costs)
        classes = np.full(Q, CLASSES)
        classes[rows] = labels[columns]
        each = np.where(classes == CLASSES, none, 1.0)
        total, weight = total - (each * log_p[i, np.arange(Q), classes]).sum(), weight + each.sum()
        for q, n in zip(rows, columns, strict=True):
            distance += np.abs(predicted[i, q] - wanted[n]).sum()
            apart += 1 - giou(predicted[i, q], wanted[n])
        objects += len(rows)
    return {"class": total / weight, "box": box * distance / objects, "giou": generalised * apart / objects}


@pytest.mark.parametrize("extent", [None, np.array([[10, 20], [1, 3], [7, 16], [0, 0]], np.int32)])
def test_equals_the_transcript(extent) -> None:
    given = batch() if extent is None else batch(extent=extent)
    goal = SetPrediction(box=4.0, giou=1.5, no_object=0.2, auxiliary=0.5)
    weights = 4.0, 1.5, 0.2

    @jax.jit
    def losses(given):
        outputs = (goal(Fixed(predictions()), {}, given, jax.random.key(0), train) for train in (False, True))
        return [{name: x.value for name, x in output.losses.items()} for output in outputs]

    evaluated, trained = losses(given)
    numpy = {name: np.asarray(x) for name, x in given.items()}
    last = transcript(LAYERS - 1, numpy, *weights)
    before = [transcript(layer, numpy, *weights) for layer in range(LAYERS - 1)]
    auxiliary = {f"auxiliary_{name}": 0.5 * sum(each[name] for each in before) for name in last}
    for found, wanted in ((evaluated, last), (trained, last | auxiliary)):
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=2e-5, err_msg=name)


def test_the_loss_of_attributes_is_that_of_the_matched_predictions() -> None:
    logits = jax.random.normal(jax.random.key(4), (LAYERS, B, Q, 3))
    attributes = np.array([[1, -1, -1, -1], [-1, -1, -1, -1], [0, 2, -1, 1], [2, -1, -1, -1]], np.int32)
    goal = SetPrediction(attribute=0.5)
    examples = batch(box_attributes=jnp.asarray(attributes))
    output = goal(Fixed(predictions()._replace(attributes=logits)), {}, examples, jax.random.key(0), False)
    chosen = goal.match(jax.tree.map(lambda x: x[-1:], predictions()), Objects.of(examples))[0]
    with_one = [(i, n) for i, n in np.argwhere(attributes >= 0) if WEIGHTS[i]]
    rows = np.stack([np.asarray(logits[-1, i, chosen[i, n]], np.float64) for i, n in with_one])
    labels = np.array([attributes[i, n] for i, n in with_one])
    surprise = np.log(np.exp(rows).sum(1)) - rows[np.arange(len(labels)), labels]
    np.testing.assert_allclose(output.losses["attribute"].value, 0.5 * surprise.mean(), rtol=1e-5)
    np.testing.assert_allclose(output.metrics["attribute_accuracy"].value, (rows.argmax(1) == labels).mean())
    plain = goal(Fixed(predictions()), {}, examples, jax.random.key(0), False)
    assert plain.losses.keys() == output.losses.keys() - {"attribute"}
    with pytest.raises(UserError, match="config.data.attribute: expected the feature of the objects' attributes"):
        goal(Fixed(predictions()._replace(attributes=logits)), {}, batch(), jax.random.key(0), False)


@pytest.mark.slow
def test_perfect_predictions() -> None:
    """Matched by themselves in any order: no loss of boxes, all classes right, an overlap of 1."""
    given = batch()
    order = np.random.default_rng(3).permutation(Q)
    boxes, labels = np.full((B, Q, 4), 0.5, np.float32), np.full((B, Q), CLASSES)
    top, left, bottom, right = np.moveaxis(np.asarray(given["boxes"]), -1, 0)
    boxes[:, order[:N]] = np.stack([(top + bottom) / 2, (left + right) / 2, bottom - top, right - left], -1)
    labels[:, order[:N]] = np.where(LABELS < 0, CLASSES, LABELS)
    found = ObjectPredictions(50 * jax.nn.one_hot(labels, CLASSES + 1)[None], jnp.asarray(boxes)[None])
    output = SetPrediction()(Fixed(found), {}, given, jax.random.key(0), False)
    assert all(abs(float(x.value)) < 1e-5 for x in output.losses.values())
    assert all(abs(float(x.value) - 1) < 1e-5 for x in output.metrics.values())
    assert float(output.metrics["iou"].count) == 6


def test_no_object_at_all() -> None:
    """Every prediction should be "no object"; terms of boxes are 0, and so are their gradients."""
    given = batch(box_labels=np.full((B, N), -1, np.int32), boxes=np.zeros((B, N, 4), np.float32))

    def loss(boxes):
        found = predictions()._replace(boxes=boxes)
        output = SetPrediction()(Fixed(found), {}, given, jax.random.key(0), True)
        return sum(x.value for x in output.losses.values()), output.losses

    (total, losses), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(predictions().boxes)
    assert np.isfinite(total) and total > 0 and not np.asarray(gradient).any()
    assert float(losses["box"].value) == float(losses["giou"].value) == 0


def small(**fields: Any) -> DETR:
    backbone = MetaFormer(stages=(Stage(8, 1),), stem=ConvEmbedding())
    return DETR(**dict(backbone=backbone, queries=4, width=8, depth=1, heads=2, head=ObjectBoxes(10)) | fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"queries": 2}, "config.model.queries: expected at least 3, the objects of config.data, got 2"),
        ({"head": ObjectBoxes(7)}, "config.model.head.classes: expected at least 10"),
    ],
)
def test_what_does_not_fit_the_data(fields, message) -> None:
    with pytest.raises(UserError, match=message):
        SetPrediction().check(small(**fields), fill_default_fields(Detections(name="txjax_canvases")))


def test_a_model_without_boxes() -> None:
    model, given = small(head=Classes(3, MeanTokens())), batch()
    goal = SetPrediction()
    with pytest.raises(UserError, match=r"a model of boxes, for SetPrediction.*ObjectBoxes"):
        jax.eval_shape(lambda: goal.init(model, {"params": jax.random.key(0)}, given))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_equals_hugging_faces_loss() -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from transformers.loss.loss_for_object_detection import ForObjectDetectionLoss

    found, given = predictions(), batch(weights=np.ones(B, np.float32))
    logits, predicted = (torch.from_numpy(np.array(x)) for x in found[:2])
    predicted = predicted[..., [1, 0, 3, 2]]
    targets = []
    for boxes, labels in zip(np.asarray(given["boxes"]), LABELS, strict=True):
        top, left, bottom, right = boxes[labels >= 0].T
        centred = np.stack([(left + right) / 2, (top + bottom) / 2, right - left, bottom - top], -1)
        classes = torch.from_numpy(labels[labels >= 0].astype(np.int64))
        targets.append({"class_labels": classes, "boxes": torch.from_numpy(centred)})
    config = transformers.DetrConfig(auxiliary_loss=True, num_labels=CLASSES, decoder_layers=LAYERS)
    theirs, _, _ = ForObjectDetectionLoss(logits[-1], targets, "cpu", predicted[-1], config, logits, predicted)
    output = SetPrediction()(Fixed(found), {}, given, jax.random.key(0), True)
    np.testing.assert_allclose(sum(float(x.value) for x in output.losses.values()), float(theirs), rtol=1e-5)
