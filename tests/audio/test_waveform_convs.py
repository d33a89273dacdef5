"""Convolutions of waveforms: how many tokens there are, and what each sees."""

import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn import KernelInit
from txjax.nn.audio.waveform_convs import WaveformConvs, WaveformSamples
from txjax.types import UserError

from helpers.arrays import call, numbers, variables

KERNEL_INIT = KernelInit()


def test_tokens_of_wav2vec2() -> None:
    """25 ms of samples at 16 kHz every 20 ms (Baevski et al. 2020, 4.2), the last one whole."""
    convolutions = WaveformConvs()
    assert convolutions.window() == 400
    lengths = convolutions.length(jnp.asarray([399, 400, 719, 720, 16_000]))
    np.testing.assert_array_equal(lengths, [0, 1, 1, 2, 49])


def test_a_token_sees_the_samples_of_its_window() -> None:
    convolutions = WaveformConvs(channels=(3, 5), sizes=(7, 4), strides=(5, 2), width=4, kernel_init=KERNEL_INIT)
    assert convolutions.window() == 22
    samples = numbers(1, 60, 1)
    params = variables(convolutions, samples)
    tokens = call(convolutions.apply, params, samples)
    changed = call(convolutions.apply, params, np.where(np.arange(60)[None, :, None] < 10, 9.0, samples))
    assert tokens.shape == (1, 4, 4)
    assert np.flatnonzero(np.any(tokens != changed, (0, 2))).tolist() == [0]
    second = call(convolutions.apply, params, samples[:, 10:32])
    np.testing.assert_allclose(second[:, 0], tokens[:, 1], rtol=1e-5, atol=1e-6)
    with pytest.raises(UserError, match=r"config\.data: expected at least 22 samples .*, got 21"):
        call(convolutions.apply, params, samples[:, :21])


def test_other_numbers_of_sizes_are_refused() -> None:
    convolutions = WaveformConvs(channels=(3,), width=4, kernel_init=KERNEL_INIT)
    with pytest.raises(UserError, match=r"config\.model\.subsampling: expected as many channels as sizes and strides"):
        variables(convolutions, numbers(1, 60, 1))


def test_samples_are_normalised_by_utterance() -> None:
    """(x - mean) / sqrt(variance + 1e-7) of the samples that are not padding, which is 0."""
    audio, length = numbers(2, 9), np.asarray([9, 5], np.int32)
    features, frames = call(WaveformSamples(), audio, length)
    np.testing.assert_array_equal(frames, length)
    wanted = np.zeros((2, 9, 1), np.float32)
    for row, count in enumerate(length):
        x = audio[row, :count]
        wanted[row, :count, 0] = (x - x.mean()) / np.sqrt(x.var() + 1e-7)
    np.testing.assert_allclose(features, wanted, rtol=1e-5, atol=1e-6)
