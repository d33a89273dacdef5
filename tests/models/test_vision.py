"""ViT and MAE: visible patches, their order, and the shared encoder."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.vision.mae import MAE
from txjax.models.vision.vit import ViT
from txjax.models.vision.vit.card import vit as published_vit
from txjax.nn import (
    Classes,
    FirstToken,
    Learned,
    MeanTokens,
    NoPositions,
    Pooled,
    Pooler,
    Sinusoidal2D,
    patchify,
    unpatchify,
)
from txjax.types import UserError

from helpers.arrays import call, numbers, parameter_count, shapes, variables

IMAGE = jnp.asarray(numbers(2, 4, 6, 1))
CLASSES_OF_MEAN = Classes(3, MeanTokens())
KEEP = np.asarray([[0, 4], [5, 2]], np.int32)


def vit(**fields: object) -> ViT:
    return ViT(**{"patch": 2, "head": Classes(3, FirstToken()), "width": 8, "depth": 1, "heads": 2, **fields})


def mae(**fields: object) -> MAE:
    sizes = {"patch": 2, "width": 8, "depth": 1, "heads": 2}
    return MAE(**{**sizes, "decoder_width": 12, "decoder_depth": 2, "decoder_heads": 3, **fields})


@pytest.mark.parametrize(
    "fields", [{}, {"class_token": None, "head": CLASSES_OF_MEAN}, {"head": CLASSES_OF_MEAN}], ids=str
)
def test_without_positions_the_order_of_patches_means_nothing(fields: dict) -> None:
    shuffled = unpatchify(patchify(IMAGE, 2)[:, jnp.asarray([3, 1, 5, 0, 2, 4])], 2, 4, 6)
    blind, seeing = vit(positions=NoPositions(), **fields), vit(positions=Sinusoidal2D(), **fields)
    params = variables(blind, IMAGE)
    logits = jax.jit(blind.apply)(params, IMAGE)
    assert logits.shape == (2, 3) and logits.dtype == np.float32
    np.testing.assert_allclose(jax.jit(blind.apply)(params, shuffled), logits, atol=1e-5)
    apply = jax.jit(seeing.apply)
    assert not np.allclose(apply(params, shuffled), apply(params, IMAGE), atol=1e-3)


def test_positions_count_the_class_token() -> None:
    assert shapes(vit(positions=Learned(max_length=7)), IMAGE)  # 6 patches and the class token
    with pytest.raises(UserError, match=r"config\.model\.positions\.max_length: expected at least .* 7, got 6"):
        shapes(vit(positions=Learned(max_length=6)), IMAGE)
    assert shapes(vit(positions=Learned(max_length=6), class_token=None, head=CLASSES_OF_MEAN), IMAGE)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_mae_never_sees_hidden_patches(dtype: str) -> None:
    model = mae(dtype=dtype)
    params, apply = variables(model, IMAGE), jax.jit(model.apply)
    painted = apply(params, IMAGE, KEEP)
    assert painted.shape == (2, 6, 4) and painted.dtype == np.float32
    patches = np.array(patchify(IMAGE, 2))
    for row, keep in zip(patches, KEEP, strict=True):
        row[[n for n in range(6) if n not in keep]] += 5
    np.testing.assert_array_equal(apply(params, call(unpatchify, patches, 2, 4, 6), KEEP), painted)
    patches[0, KEEP[0, 0]] += 5
    assert not np.allclose(apply(params, call(unpatchify, patches, 2, 4, 6), KEEP)[0], painted[0], atol=1e-2)


def test_the_encoder_s_input_is_as_short_as_what_is_kept() -> None:
    """The attention scores of the encoder's two heads are over 1 + 2 tokens, the decoder's three over 1 + 6."""
    model = mae()
    params = variables(model, IMAGE)
    program = str(jax.make_jaxpr(model.apply)(params, IMAGE, KEEP))
    assert "f32[2,2,3,3]" in program and "f32[2,3,7,7]" in program and "f32[2,2,7,7]" not in program


def test_kept_patches_return_to_their_positions() -> None:
    model = mae()
    params, apply = variables(model, IMAGE), jax.jit(model.apply)
    np.testing.assert_allclose(apply(params, IMAGE, KEEP[:, ::-1]), apply(params, IMAGE, KEEP), atol=1e-5)
    everything = np.asarray([[3, 1, 5, 0, 2, 4]] * 2, np.int32)
    np.testing.assert_allclose(apply(params, IMAGE, everything), apply(params, IMAGE), atol=1e-5)


def test_a_vit_can_start_from_an_mae() -> None:
    pretrained, classifier = (
        {path: leaf.shape for path, leaf in jax.tree_util.tree_flatten_with_path(shapes(model, IMAGE)["params"])[0]}
        for model in (mae(), vit(positions=Sinusoidal2D()))
    )
    head = {path for path in classifier if path[0].key == "head"}
    assert head and {path: classifier[path] for path in set(classifier) - head}.items() <= pretrained.items()


def features(model: ViT | MAE, params: dict, *args: object) -> np.ndarray:
    _, state = jax.jit(lambda p, *a: model.apply(p, *a, mutable=["intermediates"]))(params, *args)
    return state["intermediates"]["features"][0]


def test_features_are_what_the_head_reads() -> None:
    bare, classifier = vit(head=Pooled(Pooler())), vit(head=Classes(3, Pooler()))
    params = variables(classifier, IMAGE)["params"]
    seen = jax.jit(bare.apply)({"params": {k: v for k, v in params.items() if k != "head"}}, IMAGE)
    np.testing.assert_array_equal(features(classifier, {"params": params}, IMAGE), seen)
    logits = np.asarray(seen) @ params["head"]["kernel"] + params["head"]["bias"]
    np.testing.assert_allclose(jax.jit(classifier.apply)({"params": params}, IMAGE), logits, rtol=1e-5, atol=1e-6)


def test_a_masked_autoencoder_s_features_are_those_of_its_encoder() -> None:
    model, encoder = mae(), vit(head=Pooled(FirstToken()), positions=Sinusoidal2D())
    params = variables(model, IMAGE)["params"]
    inner = {"params": {k: v for k, v in params.items() if k != "decoder"}}
    for keep in ((), (KEEP,)):
        seen = jax.jit(encoder.apply)(inner, IMAGE, *keep)
        np.testing.assert_allclose(features(model, {"params": params}, IMAGE, *keep), seen, rtol=1e-5, atol=1e-6)


def test_the_mean_is_over_the_patches_alone() -> None:
    """As in MAE's fine-tuning: a class token is there, and not in the mean."""
    model, encoder = vit(head=Pooled(MeanTokens())), vit(head=None)
    params = variables(encoder, IMAGE)
    encoded = jax.jit(encoder.apply)(params, IMAGE)
    assert encoded.features.shape == (2, 7, 8) and encoded.prefix == 1
    expected = np.asarray(encoded.features)[:, 1:].mean(1)
    np.testing.assert_allclose(jax.jit(model.apply)(params, IMAGE), expected, rtol=1e-5, atol=1e-6)


def test_the_first_token_of_patches_alone_is_no_summary() -> None:
    with pytest.raises(
        UserError, match=r"config\.model\.head\.pool: expected MeanTokens\(\), or a class_token, got 'First"
    ):
        shapes(vit(class_token=None), IMAGE)


def test_images_of_another_size() -> None:
    assert shapes(vit(image_size=(4, 6)), IMAGE)
    with pytest.raises(UserError, match=r"config\.model\.image_size: .* got \(6, 4\); 4 x 6 pixels"):
        shapes(vit(image_size=(6, 4)), IMAGE)


def test_invalid_patch_size() -> None:
    with pytest.raises(UserError, match=r"config\.model\.patch: expected a divisor of the image's 4 x 6 pixels, got 4"):
        shapes(vit(patch=4), IMAGE)


def test_mae_base() -> None:
    """ViT-B without a classifier and with fixed positions, and the decoder of 8 layers and width 512."""
    block = lambda d: 12 * d * d + 13 * d  # noqa: E731  four d x d projections, two of 4d x d, biases, two norms
    encoder = 12 * block(768) + (768 + 1) * 768 + 768 + 2 * 768  # patches, class token, last norm
    decoder = 8 * block(512) + (768 + 1) * 512 + 512 + 2 * 512 + (512 + 1) * 768
    image = jnp.zeros((1, 224, 224, 3))
    assert parameter_count(MAE(patch=16, width=768, depth=12, heads=12), image) == encoder + decoder


def test_a_published_size_has_places_for_its_patches() -> None:
    assert published_vit("H/14").positions.max_length == 257
