"""Encoders of audio: what is padded is never read, and a token is there for as many frames as `output_length` says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.cards import cards
from txjax.nn import KernelInit, LayerContext, TokenClasses
from txjax.nn.attention.relative_attention import RelativeAttention, RelativeSinusoidal, by_offset
from txjax.nn.audio.planar_attention import PlanarAttention
from txjax.nn.audio.sequence_subsampling import GatedSubsampling, SequenceSubsampling
from txjax.nn.audio.subsampling import ImageSubsampling, SeparableSubsampling, Subsampling
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

LENGTHS = np.asarray([37, 23, 9], np.int32)
SUBSAMPLINGS = {
    "NeMo": ImageSubsampling(channels=4),
    "ESPnet": ImageSubsampling(channels=4, zeros=0),
    "Parakeet": SeparableSubsampling(channels=4, factor=8),
    "Dong": ImageSubsampling(channels=4, planes=2, modules=(PlanarAttention(channels=3),) * 2),
    "Speech2Text": GatedSubsampling(channels=6),
    "Whisper": SequenceSubsampling(),
}


def encoder(subsampling: Subsampling) -> AudioEncoder:
    return AudioEncoder(
        width=8,
        depth=2,
        heads=2,
        subsampling=subsampling,
        positions=RelativeSinusoidal(),
        mixer=RelativeAttention(),
        head=TokenClasses(5),
    )


@pytest.mark.parametrize("name", SUBSAMPLINGS)
def test_padding_is_never_read(name: str) -> None:
    model, features = encoder(SUBSAMPLINGS[name]), numbers(3, 48, 20)
    params = variables(model, features, LENGTHS)
    batch = jax.jit(model.apply)(params, features, LENGTHS)
    tokens = model.output_length(jnp.asarray(LENGTHS))
    for i, length in enumerate(LENGTHS):
        alone = jax.jit(model.apply)(params, features[i : i + 1, :length])
        assert alone.shape[1] == tokens[i] > 0
        np.testing.assert_allclose(batch[i : i + 1, : tokens[i]], alone, rtol=1e-4, atol=1e-5)


def test_features_of_too_few_frames_are_refused() -> None:
    with pytest.raises(UserError, match=r"config\.data: expected at least 4 frames and 4 bins .*features of 6 x 20"):
        variables(encoder(SUBSAMPLINGS["ESPnet"]), numbers(1, 6, 20))


def test_an_offset_is_the_distance_of_query_and_key() -> None:
    distances = jnp.broadcast_to(jnp.arange(5.0)[None, None, None], (1, 1, 3, 5))
    np.testing.assert_array_equal(by_offset(distances)[0, 0], [[2, 3, 4], [1, 2, 3], [0, 1, 2]])


def test_relative_attention_is_its_formula() -> None:
    """((q + u) . k + (q + v) . r) / sqrt(K), with interleaved waves of the distance query - key."""
    width, heads, size, length = 6, 2, 3, 5
    module, x = RelativeAttention(heads=heads, kernel_init=KernelInit()), numbers(2, length, width)
    context = LayerContext(relative=RelativeSinusoidal().relative(length, width))
    params = variables(module, x, context)
    got = call(module.apply, params, x, context)
    p = params["params"]
    q, k, v = (np.einsum("bld,dhk->blhk", x, p[n]["kernel"]) + p[n]["bias"] for n in ("query", "key", "value"))
    wave = np.zeros((2 * length - 1, width))
    frequencies = 10000.0 ** (-np.arange(width // 2) / (width // 2))
    for row, distance in enumerate(range(1 - length, length)):
        wave[row, 0::2], wave[row, 1::2] = np.sin(distance * frequencies), np.cos(distance * frequencies)
    r = np.einsum("rd,dhk->rhk", wave, p["relative"]["kernel"])
    out = np.zeros((2, length, heads, size))
    for b, i, h in np.ndindex(2, length, heads):
        content, position = q[b, i, h] + p["content_bias"][h], q[b, i, h] + p["position_bias"][h]
        scores = [content @ k[b, j, h] + position @ r[i - j + length - 1, h] for j in range(length)]
        weights = np.exp(np.asarray(scores) / np.sqrt(size))
        out[b, i, h] = weights @ v[b, :, h] / weights.sum()
    wanted = np.einsum("blhk,hkd->bld", out, p["out"]["kernel"]) + p["out"]["bias"]
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_positions_of_audio_are_those_of_every_encoder() -> None:
    """Of 48 frames and 20 bins: tokens, patches, and no positions of a model of texts."""
    models = {example.name: example.model for card in cards().values() for example in card.examples}
    plain = encoder(SUBSAMPLINGS["NeMo"])
    assert plain.encoded_positions(48, 20) == int(plain.output_length(jnp.asarray(48))) == 12
    assert models["SpectrogramTransformer"].encoded_positions(48, 20) == 6 * 15
    speech = models["SpeechTransformer"]
    assert speech.encoded_positions(48, 20) == speech.encoder.output_length(48) > 0
    assert models["Bert"].encoded_positions(48, 20) == 0
