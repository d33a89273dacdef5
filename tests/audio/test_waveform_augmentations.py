"""Augmentations of waveforms: gain, noise, and mixup in the loader."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.data.audio.waveform_mixing import WaveformMixup
from txjax.nn.audio.waveform_augmentations import Gain, WaveformAugmentation, WhiteNoise, augment_waveforms
from txjax.objectives.base import example_keys
from txjax.types import UserError

LENGTHS = np.array([3000, 1700, 3000, 0], np.int32)
IDS = np.arange(4, dtype=np.int32)


def waveforms(samples: int = 3000) -> np.ndarray:
    audio = np.random.default_rng(2).normal(0, 0.2, (4, 3000)).astype(np.float32)
    audio = np.where(np.arange(3000)[None] < LENGTHS[:, None], audio, 0)
    return np.pad(audio, ((0, 0), (0, samples - 3000))).astype(np.float32)


def augment(augmentations: Sequence[WaveformAugmentation], audio: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
    keys = example_keys(jax.random.key(1), {"id": jnp.asarray(IDS[rows])})
    run = jax.jit(lambda audio, lengths, keys: augment_waveforms(augmentations, audio, lengths, keys))
    return np.asarray(run(jnp.asarray(audio[rows]), jnp.asarray(LENGTHS[rows]), keys))


@pytest.mark.parametrize("augmentations", [(Gain(),), (WhiteNoise(),), (Gain(), WhiteNoise(), WhiteNoise())])
def test_an_example_is_augmented_alike_in_any_batch(augmentations):
    whole = augment(augmentations, waveforms())
    assert whole.dtype == np.float32 and (whole[:3] != waveforms()[:3]).any(1).all()
    np.testing.assert_array_equal(augment(augmentations, waveforms(), slice(1, None, 2)), whole[1::2])
    longer = augment(augmentations, waveforms(3500))
    np.testing.assert_allclose(longer[:, :3000], whole, rtol=1e-5, atol=1e-7)  # but for the rounding of the power
    for samples in (whole, longer):
        assert (samples[np.arange(samples.shape[1])[None] >= LENGTHS[:, None]] == 0).all()


def test_gain():
    factors = augment((Gain((-6.0, 12.0)),), waveforms())[:3, 0] / waveforms()[:3, 0]
    assert len(set(factors)) == 3 and (factors >= 10**-0.3).all() and (factors <= 10**0.6).all()
    np.testing.assert_allclose(augment((Gain((6.0, 6.0)),), waveforms()), waveforms() * 10**0.3, rtol=1e-5)


def test_noise_has_the_ratio_of_powers_and_silence_none():
    audio = waveforms()
    noise = augment((WhiteNoise((20.0, 20.0)),), audio) - audio
    for row, length in enumerate(LENGTHS[:3]):
        ratio = (audio[row] ** 2).sum() / (noise[row] ** 2).sum()
        np.testing.assert_allclose(10 * np.log10(ratio), 20, atol=0.3)
        assert (noise[row, :length] != 0).all()
    assert (augment((WhiteNoise(),), np.zeros_like(audio)) == 0).all()


@pytest.mark.parametrize("augmentation", [Gain((3.0, -3.0)), WhiteNoise((30.0, 10.0))])
def test_descending_range(augmentation):
    with pytest.raises(
        UserError, match=r"config.objective.waves\[0\].decibels: expected two ascending numbers, got \("
    ):
        augmentation.check("config.objective.waves[0]")


def test_mixup_keeps_the_first_length():
    rng = np.random.default_rng(0)
    audio, other = (rng.normal(0.3, 0.1, n).astype(np.float32) for n in (50, 30))
    for first, second in ((audio, other), (other, audio)):
        before = first.copy(), second.copy()
        mixed, share = WaveformMixup(probability=1.0)(first, second, np.random.default_rng(4))
        assert mixed.dtype == np.float32 and mixed.shape == first.shape and 0 < share < 1
        resized = np.pad(second - second.mean(), (0, 50))[: len(first)]
        np.testing.assert_allclose(mixed, share * (first - first.mean()) + (1 - share) * resized, atol=1e-6)
        np.testing.assert_array_equal(first, before[0])
        np.testing.assert_array_equal(second, before[1])


def test_mixup_of_a_part_of_the_examples():
    audio, other = np.ones(4, np.float32), np.zeros(4, np.float32)
    shares = [WaveformMixup(probability=0.3)(audio, other, np.random.default_rng(i))[1] for i in range(400)]
    assert abs(np.mean(np.array(shares) < 1) - 0.3) < 0.06
    draws = np.array([share for share in shares if share < 1])
    assert abs(draws.mean() - 0.5) < 0.05 and abs(draws.std() - (4 * 21) ** -0.5) < 0.03  # of Beta(10, 10)
