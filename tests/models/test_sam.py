"""SAM: one embedding for many prompts, objects that do not see each other, prompts of one kind as another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data.point_labels import CORNERS, IGNORED, NO_POINT
from txjax.models.vision.sam import SAM, RandomFourier
from txjax.models.vision.vit import ViT
from txjax.nn import MLP, Classes, FirstToken
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "SAM: one embedding for many prompts, objects that do not see each other; it equals the reference's, both ways "
    "(needs torch and transformers)",
)

ENCODER = ViT(patch=2, width=12, depth=1, heads=3)
MODEL = SAM(encoder=ENCODER, width=16, depth=1, heads=2, mlp=MLP(hidden=8, activation="relu"))
IMAGE, MASK = numbers(2, 4, 6, 1), numbers(2, 3, 8, 12, seed=1)
POINTS = np.random.default_rng(2).random((2, 3, 2, 2)).astype(np.float32)
LABELS = np.asarray([[[1, NO_POINT], [0, 1], CORNERS]] * 2, np.int32)


def test_prompts_of_an_embedded_image():
    given = variables(MODEL, IMAGE, POINTS, LABELS, MASK)

    def all_calls(given, image, points, labels, mask):
        embedded = MODEL.apply(given, image, method="embed_image")
        part = MODEL.apply(given, embedded, points[:, 1:2], labels[:, 1:2], mask[:, 1:2], method="predict")
        turned = MODEL.apply(given, embedded, points[:, :, ::-1], labels[:, :, ::-1], mask, method="predict")
        plain = MODEL.apply(given, embedded, points, labels, method="predict")
        more = jnp.concatenate([points, points], 2), jnp.concatenate([labels, jnp.full_like(labels, IGNORED)], 2)
        padded = MODEL.apply(given, embedded, *more, method="predict")
        _, state = MODEL.apply(given, image, mutable=["intermediates"])
        features = state["intermediates"]["features"]
        return MODEL.apply(given, image, points, labels, mask), part, turned, plain, padded, embedded, features

    found = call(jax.jit(all_calls), given, IMAGE, POINTS, LABELS, MASK)
    (masks, ious), part, turned, plain, padded, embedded, features = jax.device_get(found)
    assert masks.shape == (2, 3, 4, 8, 12) and ious.shape == (2, 3, 4)
    pairs = (part[0], masks[:, 1:2]), (part[1], ious[:, 1:2]), (turned[0], masks)
    for one, other in (*pairs, *zip(padded, plain, strict=True)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert not np.allclose(plain[0], masks, atol=1e-2)  # the mask is seen
    np.testing.assert_allclose(features[0], embedded.mean((1, 2)), rtol=1e-5)


def test_the_branches_of_the_decoder_s_layers():
    model = MODEL.clone(depth=2)
    state = shapes(model, IMAGE, POINTS, LABELS, MASK)
    block = state["params"]["decoder"]["layers"]["block"]
    layers = {"attention", "cross", "mlp"}
    assert {side: set(block[side]) for side in block} == {
        "tokens": layers | {f"norm_{name}" for name in layers},
        "image": {"attention", "norm_attention"},
    }
    masks, _ = jax.eval_shape(model.apply, state, IMAGE, POINTS, LABELS, MASK)
    assert masks.shape == (2, 3, 4, 8, 12)


def test_the_features_of_points_by_their_formula():
    points, fourier = np.asarray([[0.25, 1.0]], np.float32), RandomFourier(frequencies=(1.0, 2.0, 0.5, -1.0))
    angles = 2 * np.pi * np.asarray([-0.5 * 1.0 + 1.0 * 0.5, -0.5 * 2.0 + 1.0 * -1.0])
    np.testing.assert_allclose(call(fourier, points, 4)[0], [*np.sin(angles), *np.cos(angles)], atol=1e-5)
    drawn = RandomFourier(deviation=2.0).matrix(4000)
    assert drawn.std() == pytest.approx(2.0, rel=0.05) and (RandomFourier(seed=1).matrix(8) != drawn[:, :4]).all()


def test_user_errors():
    with pytest.raises(UserError, match="config.model.width: expected a multiple of 8, got 12"):
        shapes(MODEL.clone(width=12), IMAGE)
    with pytest.raises(UserError, match="mask: expected logits on 8 x 12 places"):
        shapes(MODEL, IMAGE, POINTS, LABELS, MASK[:, :, :4])
    with pytest.raises(UserError, match="config.model.fourier.frequencies: expected 16, the width, got 2"):
        shapes(MODEL.clone(fourier=RandomFourier(frequencies=(1.0, 2.0))), IMAGE)
    with pytest.raises(UserError, match="config.model.encoder: expected an encoder of images with head=None"):
        shapes(MODEL.clone(encoder=ENCODER.clone(head=Classes(3, FirstToken()))), IMAGE)
