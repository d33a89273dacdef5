"""CLIP's and SigLIP's towers: what they normalise, which tokens and pixels they read, and how features are compared."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models import Stage
from txjax.models.multimodal.two_towers import CLIPImageTower, FixedLengthText, ProbePool, SigLIPImageTower, TwoTowers
from txjax.models.multimodal.two_towers.two_towers import keep_at_most
from txjax.models.text.decoder import Decoder
from txjax.models.vision.res_net import ResNet
from txjax.nn import Encoded, FirstToken, LastToken, NoPositions, NormedPool, Pooled, Projected
from txjax.types import UserError

from helpers.arrays import call, numbers, shapes, variables

SIZES: dict[str, Any] = {"width": 8, "depth": 1, "heads": 2}
IMAGE = numbers(2, 4, 4, 1)
TOKENS = np.asarray([[1, 2, 3, 4, 0], [5, 6, 4, 0, 0]], np.int32)
SEGMENTS = (TOKENS > 0).astype(np.int32)
CLIP_TEXT = Decoder(vocab=9, **SIZES, head=Projected(6, LastToken()))
SIGLIP_TEXT = FixedLengthText(vocab=9, **SIZES, head=Projected(6, LastToken(), use_bias=True))
CLIP_IMAGES = CLIPImageTower(patch=2, **SIZES, head=Projected(6, NormedPool(FirstToken())))
SIGLIP_IMAGES = SigLIPImageTower(patch=2, **SIZES, head=Pooled(ProbePool()))


def output(model: Any, weights: Any, *inputs: Any, **more: Any) -> Any:
    return call(jax.jit(lambda weights, *inputs: model.apply(weights, *inputs, **more)), weights, *inputs)


def test_clip_normalises_patches_and_class_token_before_the_layers() -> None:
    """So their common scale means nothing; what leaves the layers is normalised by the head alone."""
    weights = variables(CLIP_IMAGES, IMAGE)
    params = dict(weights["params"])
    assert "bias" not in params["patch_embed"] and {"norm_stem", "norm_final"} < set(params)
    for name in ("patch_embed", "pool", "positions"):
        params[name] = jax.tree.map(lambda x: 3 * x, params[name])
    features = output(CLIP_IMAGES, weights, IMAGE)
    np.testing.assert_allclose(output(CLIP_IMAGES, {"params": params}, IMAGE), features, atol=1e-4)
    bare = CLIP_IMAGES.clone(head=None)
    assert set(shapes(bare, IMAGE)["params"]) == set(params) - {"head"}  # the norm is kept for export, and not run


@pytest.mark.parametrize(("model", "reads"), [(CLIP_TEXT, False), (SIGLIP_TEXT, True)], ids=["clip", "siglip"])
def test_siglip_reads_padding_and_clip_does_not(model: Any, reads: bool) -> None:
    weights = variables(model, TOKENS)
    features = output(model, weights, TOKENS, SEGMENTS)
    other = output(model, weights, np.where(SEGMENTS > 0, TOKENS, 7), SEGMENTS)
    assert np.allclose(features, other, atol=1e-6) == (not reads)
    shorter = output(model, weights, TOKENS[:, :4], SEGMENTS[:, :4])
    assert np.allclose(features[0], shorter[0], atol=1e-5) == (not reads)


def test_siglip_reads_whole_patches_alone() -> None:
    odd = numbers(2, 5, 5, 1)
    weights = variables(SIGLIP_IMAGES, odd)
    changed = odd.copy()
    changed[:, 4] = changed[:, :, 4] = 9
    np.testing.assert_array_equal(output(SIGLIP_IMAGES, weights, changed), output(SIGLIP_IMAGES, weights, odd))


def test_a_probe_reads_a_set_of_patches() -> None:
    """Without positions their order means nothing; of equal patches it reads one."""
    model = SIGLIP_IMAGES.clone(positions=NoPositions())
    weights = variables(model, IMAGE)
    turned = IMAGE.reshape(2, 2, 2, 4, 1)[:, ::-1].reshape(2, 4, 4, 1)
    np.testing.assert_allclose(output(model, weights, turned), output(model, weights, IMAGE), atol=1e-5)
    tiled = np.tile(IMAGE[:, :2, :2], (1, 2, 2, 1))
    np.testing.assert_allclose(output(model, weights, tiled), output(model, weights, IMAGE[:, :2, :2]), atol=1e-5)


def test_a_probe_reads_no_padding() -> None:
    model = Decoder(vocab=9, **SIZES, head=Pooled(ProbePool()))
    weights = variables(model, TOKENS)
    features = output(model, weights, TOKENS, SEGMENTS)
    np.testing.assert_allclose(features[1], output(model, weights, TOKENS[1:, :3])[0], atol=1e-5)


def test_a_probe_needs_the_heads_of_a_stack() -> None:
    with pytest.raises(
        UserError, match=r"config\.model\.head\.pool: expected a pool of .* MeanTokens\(\), got 'ProbeP"
    ):
        shapes(ResNet(stages=(Stage(8, 1),), head=Pooled(ProbePool())), numbers(1, 32, 32, 3))


@pytest.mark.parametrize(("train", "largest", "scale"), [(False, 100.0, 200), (True, 100.0, 100), (True, None, 200)])
def test_the_scale_is_bounded_in_training(train: bool, largest: float | None, scale: float) -> None:
    model = TwoTowers(vision=CLIP_IMAGES, text=CLIP_TEXT, largest_scale=largest)
    weights = variables(model, IMAGE, TOKENS)
    weights["params"]["logit_scale"] = np.float32(math.log(200))
    features = output(model, weights, IMAGE, TOKENS, train=train)
    np.testing.assert_allclose(features.scale, [scale] * 2, rtol=1e-5)
    np.testing.assert_array_equal(features.bias, [0, 0])


@pytest.mark.parametrize(
    ("x", "slope", "expected"), [(1.0, 3.0, 3.0), (3.0, 3.0, 3.0), (3.0, -3.0, 0.0), (1.0, -3.0, -3.0)]
)
def test_a_bounded_scale_can_become_smaller(x: float, slope: float, expected: float) -> None:
    """Above the bound 2 only a loss that grows with the scale has a gradient."""
    assert jax.grad(lambda x: slope * keep_at_most(x, 2.0))(x) == expected


def test_logits_are_scaled_cosines_and_a_bias() -> None:
    model = TwoTowers(vision=SIGLIP_IMAGES, text=SIGLIP_TEXT.clone(head=Projected(8, LastToken())), bias=-10.0)
    weights = variables(model, IMAGE, TOKENS)
    weights["params"] |= {"logit_scale": np.float32(math.log(10)), "logit_bias": np.float32(-7)}
    features = output(model, weights, IMAGE, TOKENS)
    one, other = np.asarray(features.image), np.asarray(features.text)
    np.testing.assert_allclose([np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)], np.ones((2, 2)), rtol=1e-5)
    np.testing.assert_allclose(features.logits(), 10 * one @ other.T - 7, atol=1e-4)


@pytest.mark.parametrize(
    ("vision", "text", "said"),
    [
        (CLIP_IMAGES.clone(head=None), CLIP_TEXT, r"vision\.head: expected a head that gives one vector .* 'Encoded'"),
        (CLIP_IMAGES, CLIP_TEXT.clone(head=None), r"text\.head: expected a head that gives one vector .* 'Encoded'"),
        (SIGLIP_IMAGES, CLIP_TEXT, r"text\.head: expected features of the size of the image tower's, got '8 and 6'"),
    ],
)
def test_towers_give_one_vector_of_one_size(vision: Any, text: Any, said: str) -> None:
    with pytest.raises(UserError, match=rf"config\.model\.{said}"):
        shapes(TwoTowers(vision=vision, text=text), IMAGE, TOKENS)


def test_a_tower_without_a_head_is_an_encoder() -> None:
    encoded = jax.eval_shape(lambda: SIGLIP_TEXT.clone(head=None).init_with_output(jax.random.key(0), TOKENS)[0])
    assert isinstance(encoded, Encoded) and encoded.features.shape == (2, 5, 8)
    assert encoded.embedding.shape == (9, 8) and jnp.dtype(encoded.features.dtype) == jnp.float32
