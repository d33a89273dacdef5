"""The IoU after each click, counted by hand, and the colours of the picture."""

import dataclasses
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.eval import ClickedMasks
from txjax.eval.images.clicked_masks import CLICKS, OBJECTS, mark_points, tint_masks
from txjax.experiment import Experiment
from txjax.nn import Stack
from txjax.objectives import Classification, PromptedMasks
from txjax.train.check import check
from txjax.types import UserError

from helpers.evaluations import Net, Pictures, Scenes, measure

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "focal and dice loss, clicks, rounds of prompts by their formulas; IoU after each click",
)


class Improving(nn.Module):
    """After one click a mask is all of the image, after two it is what the clicks off the object leave of it."""

    stack: Stack = dataclasses.field(default_factory=Stack)
    finer = 1

    def embed_image(self, image, train):
        return image

    def predict(self, embedded, points, labels, mask, train):
        columns = jnp.arange(4) / 4
        wrong = (labels[..., None] == 0) & (columns[None, None, None] >= 0.5)
        logits = jnp.where(wrong.any(2), -1.0, 1.0)[:, :, None, None]
        shape = (*points.shape[:2], 4, *embedded.shape[1:3])
        ious = jnp.asarray([0.0, 1.0, 3.0, 2.0])
        return jnp.broadcast_to(logits, shape), jnp.broadcast_to(ious[None, None], shape[:3])


def test_scores_and_picture(tmp_path: Path) -> None:
    evaluation = ClickedMasks(data=Scenes(), clicks=2, count=3)
    scores = measure(Improving(), PromptedMasks(), evaluation, {"params": {}}, folder=tmp_path)
    assert scores == {"iou_1": 0.5, "iou_2": 1.0}  # the left half, and padding that does not count
    assert (tmp_path / "pictures" / "x" / "7.png").read_bytes().startswith(b"\x89PNG")


def test_colours():
    images, masks = np.full((1, 2, 2, 1), 0.5, np.float32), np.zeros((1, 2, 2, 2), bool)
    masks[0, 1, 1, 0] = True
    shown = tint_masks(images, masks)
    np.testing.assert_allclose(shown[0, 1, 0], (0.5 + np.asarray(OBJECTS[1])) / 2, rtol=1e-6)
    np.testing.assert_array_equal(shown[0, 0], 0.5)
    points = np.asarray([[[[0.1, 0.6], [1.0, 0.2], [0.0, 0.0]]]], np.float32)
    mark_points(shown, points, np.asarray([[[1, 0, -1]]]))
    np.testing.assert_allclose(shown[0, 0, 1], CLICKS[1])
    np.testing.assert_allclose(shown[0, 1, 0], CLICKS[0])
    np.testing.assert_array_equal(shown[0, 0, 0], 0.5)


def test_user_errors():
    evals = {"x": ClickedMasks(data=Scenes())}
    with pytest.raises(UserError, match=r"config.evals.x: expected a run whose model answers prompts"):
        check(Experiment(model=Net(), objective=Classification(), data=Pictures(), evals=evals, batch_size=16))
