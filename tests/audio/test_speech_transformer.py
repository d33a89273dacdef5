"""Speech-Transformers: decoded step by step, with features of waveforms; 2-D attention and differences by formula."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data import Bytes, NextTokenWindows
from txjax.decoding import Beam, Cached, Sampling
from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.models.audio.speech_transformer import SpeechTransformer, WindowEncoder, speech2text, whisper
from txjax.nn import KernelInit, Learned, TokenClasses
from txjax.nn.audio.differences import Differences
from txjax.nn.audio.front_ends import speech2text as speech2text_front_end
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.planar_attention import PlanarAttention
from txjax.nn.audio.sequence_subsampling import GatedSubsampling, SequenceSubsampling
from txjax.nn.audio.spec_augment import SpecAugment
from txjax.objectives import NextToken
from txjax.types import UserError

from helpers.arrays import call, forward, numbers, variables

V, L = 11, 6
SIZES: dict[str, Any] = {"width": 8, "depth": 2, "heads": 2}
LENGTHS = np.asarray([23, 14], np.int32)
FEATURES = numbers(2, 23, 20)
TOKENS = np.random.default_rng(0).integers(0, V, (2, L)).astype(np.int32)


def model(**encoder: Any) -> SpeechTransformer:
    fields = {"subsampling": GatedSubsampling(channels=6), "depth": 1} | encoder
    return speech2text(vocab=V, **SIZES, encoder=fields)


def test_decoding_step_by_step_reads_the_audio_once() -> None:
    """Each call but the first has one token, and its logits are those of the whole text."""
    ours = model()
    params = variables(ours, TOKENS, FEATURES, LENGTHS)
    whole = forward(ours)(params, TOKENS, FEATURES, LENGTHS)
    generator, inputs = Cached(ours), {"tokens": TOKENS[:, :1], "features": FEATURES, "features_length": LENGTHS}
    logits, state = jax.jit(lambda v, i: generator.start(v, i, L))(params, inputs)
    step = jax.jit(generator.step)
    for column in range(1, L):
        np.testing.assert_allclose(logits, whole[:, column - 1], rtol=1e-4, atol=1e-5)
        logits, state = step(params, state, jnp.asarray(TOKENS[:, column]))
    np.testing.assert_allclose(logits, whole[:, -1], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_beam_of_one_is_greedy_and_no_beam_reads_padding() -> None:
    ours, start = model(), np.zeros((2, 1), np.int32)
    params = variables(ours, TOKENS, FEATURES, LENGTHS)

    @jax.jit
    def write(params: Any, features: Any) -> Any:
        inputs = {"tokens": start, "features": features, "features_length": LENGTHS}
        greedy = Sampling(temperature=0)(Cached(ours), params, inputs, 5, jax.random.key(0))
        return greedy, *(Beam(size).hypotheses(Cached(ours), params, inputs, 5).tokens for size in (1, 3))

    padding = np.arange(23)[None, :, None] >= LENGTHS[:, None, None]
    greedy, one, three = write(params, FEATURES)
    np.testing.assert_array_equal(greedy, one[:, 0])
    for texts, others in zip((greedy, one, three), write(params, np.where(padding, 7.0, FEATURES)), strict=True):
        np.testing.assert_array_equal(texts, others)


def test_a_batch_of_waveforms_has_the_features_of_the_encoders_front_end() -> None:
    front_end = dataclasses.replace(speech2text_front_end(), mels=20)
    audio, length = numbers(2, 1600), np.asarray([1600, 900], np.int32)
    batch = {"id": np.arange(2), "audio": audio, "audio_length": length, "tokens": TOKENS, "targets": TOKENS}
    inputs = NextToken().inputs(model(front_end=front_end), batch)
    assert set(inputs) == {"tokens", "features", "features_length"}
    features, frames = call(front_end, audio, length)
    np.testing.assert_array_equal(inputs["features"], features)
    np.testing.assert_array_equal(inputs["features_length"], frames)


def test_a_window_is_read_as_a_whole() -> None:
    """Whisper's encoder attends to the silence behind an utterance; features of another length are refused."""
    positions = Learned(max_length=7)
    ours = whisper(vocab=V, **SIZES, positions=positions, encoder={"frames": 23})
    params = variables(ours, TOKENS, FEATURES, LENGTHS)
    np.testing.assert_array_equal(
        forward(ours)(params, TOKENS, FEATURES, LENGTHS), forward(ours)(params, TOKENS, FEATURES)
    )
    other = whisper(vocab=V, **SIZES, positions=positions, encoder={"frames": 30})
    with pytest.raises(UserError, match=r"config\.data: expected features of 30 frames.*got 23"):
        variables(other, TOKENS, FEATURES)


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match=r"config\.objective: expected an objective that gives the model features"):
        variables(model(), TOKENS)
    with pytest.raises(UserError, match=r"config\.model\.encoder\.head: expected None.*got 'TokenClasses"):
        variables(model(head=TokenClasses(3)), TOKENS, FEATURES)
    with pytest.raises(UserError, match=r"config\.model\.subsampling\.kernel: expected an odd number, got 4"):
        variables(model(subsampling=GatedSubsampling(channels=6, kernel=4)), TOKENS, FEATURES)
    text = NextTokenWindows(name="txjax_python_text", length=16, tokenizer=Bytes())
    with pytest.raises(UserError, match=r"objective\.augment: expected None, for data without audio, got 'SpecAug"):
        NextToken(augment=SpecAugment()).check(model().clone(vocab=256), text)


def test_planar_attention_is_its_formula() -> None:
    """Each channel's rows attend to its rows and its columns to its columns; padding counts nowhere."""
    module, length, channels = PlanarAttention(channels=2, kernel_init=KernelInit()), 4, 2
    x = numbers(1, 6, 5, 3)
    x[:, length:] = 0
    params = variables(module, x, np.asarray([length]))
    got = call(module.apply, params, x, np.asarray([length]))

    def conv(image: np.ndarray, name: str) -> np.ndarray:
        p = params["params"][name]
        padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
        windows = [[padded[i : i + 3, j : j + 3] for j in range(image.shape[1])] for i in range(image.shape[0])]
        return np.einsum("tmijc,ijcd->tmd", np.asarray(windows), p["kernel"]) + p["bias"]

    def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = np.exp(q @ k.T / np.sqrt(q.shape[1]))
        return scores / scores.sum(1, keepdims=True) @ v

    q, k, v = (conv(x[0, :length], name) for name in ("query", "key", "value"))
    over_time = [attend(q[..., c], k[..., c], v[..., c]) for c in range(channels)]
    over_frequency = [attend(q[..., c].T, k[..., c].T, v[..., c].T).T for c in range(channels)]
    wanted = conv(np.stack(over_time + over_frequency, -1), "out")
    np.testing.assert_allclose(got[0, :length], wanted, rtol=1e-4, atol=1e-5)


def test_differences_are_their_formula() -> None:
    """(x_{t+1} - x_{t-1} + 2 (x_{t+2} - x_{t-2})) / 10, the frames at the ends repeated, and zeros in padding."""
    base = LogMel(mels=4)
    audio, length = numbers(2, 1600), np.asarray([1600, 720], np.int32)
    features, frames = call(base, audio, length)
    got, counts = call(Differences(base), audio, length)
    np.testing.assert_array_equal(counts, frames)
    assert got.shape == (2, features.shape[1], 12) and Differences(base).frames(1600) == base.frames(1600)
    for row, count in enumerate(np.asarray(frames)):
        planes = [np.asarray(features[row, :count])]
        for _ in range(2):
            p = np.pad(planes[-1], ((2, 2), (0, 0)), mode="edge")
            planes.append((p[3:-1] - p[1:-3] + 2 * (p[4:] - p[:-4])) / 10)
        np.testing.assert_allclose(got[row, :count], np.concatenate(planes, -1), rtol=1e-4, atol=1e-5)
        assert not np.asarray(got[row, count:]).any()


def test_an_encoder_may_have_another_width() -> None:
    encoder = AudioEncoder(width=6, depth=1, heads=3, subsampling=SequenceSubsampling())
    ours = SpeechTransformer(vocab=V, **SIZES, encoder=encoder)
    params = variables(ours, TOKENS, FEATURES, LENGTHS)
    assert forward(ours)(params, TOKENS, FEATURES, LENGTHS).shape == (2, L, V)
    assert params["params"]["decoder"]["layers"]["block"]["cross"]["key"]["kernel"].shape[:2] == (2, 6)
    assert isinstance(whisper(vocab=V, **SIZES).encoder, WindowEncoder)
