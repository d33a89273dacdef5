"""LLaVA: patches in the places of image tokens, in training and with a cache."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.decoding import Beam, Cached, Recomputed, generator_for
from txjax.models.multimodal.llava import LinearProjector, LLaVA
from txjax.models.multimodal.two_towers import CLIPImageTower
from txjax.nn import Stack

from helpers.arrays import numbers, variables

pytestmark = pytest.mark.claim(
    "Models and objectives",
    "LLaVA: image tokens get patches, in order and over several images; with a cache as without",
)

MARK = 12
TOKENS = jnp.array([[1, MARK, MARK, MARK, MARK, 3, 4, 5, 6, 7], [2, MARK, MARK, MARK, MARK, 4, 5, 6, 7, 8]])
IMAGES = jnp.asarray(numbers(2, 2, 4, 4, 1))  # two of each text


def model(**fields: Any) -> LLaVA:
    tower = CLIPImageTower(patch=2, width=4, depth=3, heads=2, stack=Stack(outputs=(-2,)))
    return LLaVA(vocab=13, width=8, depth=2, heads=2, image_token=MARK, vision=tower, **fields)


@pytest.fixture(scope="module")
def params() -> Any:
    return variables(model(), tokens=TOKENS, image=IMAGES[:, 0])


def test_image_tokens_get_patches(params: Any) -> None:
    """Equal to the language model on embeddings that have the projected patches in these places."""
    llava = model(projector=LinearProjector())
    params = variables(llava, tokens=TOKENS, image=IMAGES[:, 0])
    tower = llava.vision.apply({"params": params["params"]["vision"]}, IMAGES[:, 0]).features[:, 1:]
    out = params["params"]["projector"]["out"]
    patches = tower @ out["kernel"] + out["bias"][None, None]
    table = params["params"]["embed"]["embedding"]
    with_patches = jnp.concatenate([table, patches.reshape(-1, 8)])
    # A vocabulary with a token for each patch.
    decoder = {name: x for name, x in params["params"].items() if name not in ("vision", "projector")}
    longer = llava.clone(vocab=len(with_patches))
    tokens = TOKENS.at[:, 1:5].set(13 + jnp.arange(8).reshape(2, 4))
    expected = longer.apply({"params": decoder | {"embed": {"embedding": with_patches}}}, tokens).dense()[..., :13]
    np.testing.assert_allclose(llava.apply(params, TOKENS, image=IMAGES[:, 0]).dense(), expected, atol=1e-6)


def test_several_images_and_none(params: Any) -> None:
    """The second image is in the places behind those of the first; a text without places has none."""
    once = model().apply(params, TOKENS, image=IMAGES[:, 0]).dense()
    np.testing.assert_allclose(model().apply(params, TOKENS, images=IMAGES).dense(), once, atol=1e-6)
    twice = TOKENS.at[:, 5:9].set(MARK)
    outputs = [model().apply(params, twice, images=x).dense() for x in (IMAGES, IMAGES.at[:, 1].add(1))]
    np.testing.assert_array_equal(outputs[0][:, :5], outputs[1][:, :5])
    assert (np.abs(outputs[0] - outputs[1])[:, 5:9] > 0).any((1, 2)).all()
    texts = jnp.minimum(TOKENS, 11)
    np.testing.assert_array_equal(
        model().apply(params, texts, image=IMAGES[:, 0]).dense(), model().apply(params, texts).dense()
    )


def test_padding_that_has_the_image_token_gets_no_patch(params: Any) -> None:
    """Padding before a text, as prompts of unlike lengths have it, changes nothing."""
    padded = jnp.pad(TOKENS, ((0, 0), (2, 0)), constant_values=MARK)
    segments = jnp.pad(jnp.ones_like(TOKENS), ((0, 0), (2, 0)))
    positions = jnp.maximum(segments.cumsum(1) - 1, 0)
    output = model().apply(params, padded, segments=segments, positions=positions, image=IMAGES[:, 0]).dense()
    expected = model().apply(params, TOKENS, image=IMAGES[:, 0]).dense()
    np.testing.assert_allclose(output[:, 2:], expected, atol=1e-6)


def test_a_cache_changes_nothing(params: Any) -> None:
    """The first call has the image; the texts are those of a model that reads everything again for each token."""
    inputs = {"tokens": np.asarray(TOKENS), "image": np.asarray(IMAGES[:, 0])}
    generator = generator_for(model(), params, inputs, 20)
    assert isinstance(generator, Cached)

    def best(generator: Any, inputs: Any) -> Any:
        return jax.device_get(jax.jit(lambda v, i: Beam(2).hypotheses(generator, v, i, 6))(params, inputs))

    cached = best(generator, inputs)
    again = best(Recomputed(model(), 20), inputs)
    np.testing.assert_array_equal(cached.tokens, again.tokens)
    np.testing.assert_allclose(cached.scores, again.scores, rtol=1e-4)
    other = best(generator, inputs | {"image": np.asarray(IMAGES[:, 1])})
    assert np.abs(other.scores - cached.scores).max() > 1e-4
