"""Clicks, rounds of prompts, and the loss of the masks that answer them."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data.point_labels import IGNORED
from txjax.models.vision.vit import ViT
from txjax.nn import Stack
from txjax.objectives import PromptedMasks
from txjax.objectives.clicks import central_click, in_resolution, interact, random_click, squared_depth
from txjax.objectives.mask_losses import dice, focal, mask_iou
from txjax.types import UserError

from helpers.arrays import call, numbers

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "focal and dice loss, clicks, rounds of prompts by their formulas; IoU after each click",
)

KEYS = jax.random.key(3)


def test_the_depth_of_a_place_is_its_distance_to_the_border():
    region = numbers(7, 9, seed=2) > -1.2
    padded = np.pad(region, 1)
    outside = np.argwhere(~padded)
    wanted = [[((outside - (r + 1, c + 1)) ** 2).sum(1).min() for c in range(9)] for r in range(7)]
    np.testing.assert_array_equal(call(jax.jit(squared_depth), region), wanted)


def test_clicks_are_on_what_is_wrong():
    target = np.zeros((1, 3, 6, 4), bool)
    target[0, 0, 1:4, 0:3] = target[0, 1, 5, 3] = target[0, 2, :3] = True
    region = target.copy()
    region[0, 1] = False  # nothing is wrong with the second object
    region[0, 2] = False
    region[0, 2, 5, 1] = True  # off the third one
    points, labels = call(jax.jit(central_click), region, target)
    assert labels.ravel().tolist() == [1, -1, 0]
    np.testing.assert_allclose(points[0, [0, 2], 0], [[2.5 / 6, 1.5 / 4], [5.5 / 6, 1.5 / 4]])
    both = jnp.asarray(region), jnp.asarray(target)
    drawn = jax.jit(lambda i: random_click(jax.random.split(jax.random.fold_in(KEYS, i), 1), *both))
    clicked = set()
    for i in range(60):
        points, labels = jax.device_get(drawn(i))
        assert labels.ravel().tolist() == [1, 1, 0]
        row, column = np.floor(points[0, 0, 0] * (6, 4)).astype(int)
        clicked.add((row, column))
        np.testing.assert_allclose(points[0, 1:, 0], [[5.5 / 6, 3.5 / 4], [5.5 / 6, 1.5 / 4]])
    assert clicked == set(map(tuple, np.argwhere(target[0, 0])))  # each place of the first object in its turn


class Counts(nn.Module):
    """Every fourth row and second column is the embedding; the logits of mask i are i times the points' rows, plus 10
    times the prompted mask's.
    """

    stack: Stack = dataclasses.field(default_factory=Stack)
    finer = 2

    def embed_image(self, image, train):
        return image[:, ::4, ::2]

    def predict(self, embedded, points, labels, mask, train):
        batch, rows, columns, _ = embedded.shape
        seen = jnp.where(labels == IGNORED, 0.0, points[..., 0] + 1).sum(2) + (
            0 if mask is None else 10 * mask[..., 0, 0]
        )
        logits = jnp.ones((batch, points.shape[1], 4, 2 * rows, 2 * columns)) * seen[:, :, None, None, None]
        ious = jnp.broadcast_to(jnp.asarray([9.0, 1.0, 3.0, 2.0]), logits.shape[:3])
        return logits * jnp.arange(1.0, 5.0)[None, None, :, None, None], ious


def test_rounds_of_prompts():
    image, masks = jnp.zeros((2, 8, 6, 1)), jnp.ones((2, 5, 8, 6), jnp.int32)

    def first(target):
        assert target.shape == (2, 5, 4, 6)
        return jnp.zeros((2, 5, 2, 2)), jnp.zeros((2, 5, 2), jnp.int32)

    def click(number, seen, target):
        assert seen.shape == target.shape
        return jnp.full((2, 5, 1, 2), 1.0 * number), jnp.ones((2, 5, 1), jnp.int32)

    def rounds(model):
        clicked = jnp.asarray([[True, False, True], [True, True, False]])
        return interact(model, image, masks, first, click, clicked, False)

    found = jax.jit(lambda: Counts().apply({}, method=rounds))()
    assert found.first.logits.shape[2] == 3 and found.later.logits.shape[:4] == (3, 2, 5, 1)
    # Two points of row 0. The third of four masks has the highest IoU at first; later the first one counts.
    third = 3 * 2.0
    assert [float(mask[0, 0, 0, 0]) for mask in found.masks()] == [
        third,
        10 * third + 4,  # a point of row 1
        10 * (10 * third + 4) + 4,  # none
        10 * (10 * (10 * third + 4) + 4) + 8,  # one of row 3
    ]
    assert found.points[1][:, 0].tolist() == [[0, 0, 1, IGNORED, 1], [0, 0, 1, 1, IGNORED]]
    assert found.points[0][1, 4, :, 0].tolist() == [0, 0, 1, 2, 3]


def test_rounds_without_a_new_point():
    keys = jax.random.split(KEYS, 200)
    found = np.asarray(jax.jit(PromptedMasks(clicks=4, refinements=2).has_click)(keys))
    assert found.shape == (200, 5) and not found[:, -1].any() and (found.sum(1) == 3).all()
    assert ((~found[:, :-1]).sum(0) > 35).all()  # one of them is anywhere, each place 50 times on average
    assert np.asarray(jax.jit(PromptedMasks(clicks=3, refinements=0).has_click)(keys)).tolist() == [[True, True]] * 200
    assert jax.jit(PromptedMasks(clicks=1, refinements=0).has_click)(keys).shape == (200, 0)


def test_masks_in_another_resolution():
    masks = np.zeros((1, 1, 4, 4), np.int32)
    masks[0, 0, :2, :2] = 1
    small = call(in_resolution, masks, 2, 2)
    np.testing.assert_array_equal(small[0, 0], [[True, False], [False, False]])
    np.testing.assert_array_equal(call(in_resolution, masks, 4, 4), masks > 0)
    np.testing.assert_array_equal(call(in_resolution, masks, 8, 8)[0, 0, :4, :4], True)


def test_the_best_mask_counts_and_all_ious_are_predicted():
    objective = PromptedMasks(focal=2.0, dice=0.5)
    logits, ious, target = numbers(2, 3, 4, 5, 5), numbers(2, 3, 4, seed=1), numbers(2, 3, 5, 5, seed=2) > 0
    found = call(objective.terms, logits, ious, target)
    for b in range(2):
        for n in range(3):
            each = [[float(call(loss, mask, target[b, n])) for loss in (focal, dice)] for mask in logits[b, n]]
            best = min(each, key=lambda pair: 2.0 * pair[0] + 0.5 * pair[1])
            true = np.array([float(call(mask_iou, mask > 0, target[b, n])) for mask in logits[b, n]])
            error = np.square(ious[b, n] - true).mean()
            np.testing.assert_allclose([float(term[b, n]) for term in found], [*best, error], rtol=1e-5)


def test_first_prompts_are_clicks_or_boxes():
    target = jnp.ones((1, 400, 4, 4), bool)
    boxes = jnp.tile(jnp.asarray([0.25, 0.0, 0.75, 0.5]), (1, 400, 1))
    keys = jax.random.split(KEYS, 1)
    points, labels = jax.jit(PromptedMasks(boxes=0.25).first)(keys, target, boxes)
    boxed = np.asarray(labels[0, :, 0] == 2)
    assert 70 < boxed.sum() < 130
    np.testing.assert_array_equal(labels[0], np.where(boxed[:, None], [2, 3], [1, -1]))
    away = np.abs(np.asarray(points[0, boxed]) - [[0.25, 0.0], [0.75, 0.5]])
    assert 0.005 < away.mean() < away.max() <= 20 / 1024 + 1e-6
    whole = jax.jit(PromptedMasks(boxes=1.0, deviation=0.0).first)(keys, target, boxes)[0]
    np.testing.assert_allclose(whole[0, 0], [[0.25, 0.0], [0.75, 0.5]])


def test_user_errors():
    with pytest.raises(UserError, match=r"config.model: expected a model with embed_image, predict, .*such as SAM"):
        PromptedMasks().check_model(ViT(patch=2, width=8, depth=1, heads=2), {})
