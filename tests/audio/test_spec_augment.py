"""SpecAugment: which features are masked, how wide masks are, and what is written."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn.audio import spec_augment_policies as policies
from txjax.nn.audio.spec_augment import AxisMasks, Constant, SpecAugment, UtteranceMean
from txjax.objectives.base import example_keys
from txjax.overrides import override_all
from txjax.tree import from_json, to_json

MELS = 12
IDS = np.arange(6, dtype=np.int32)
LENGTHS = np.array([30, 7, 1, 0, 22, 30], np.int32)
AUGMENT = SpecAugment(frequency=AxisMasks(count=1, width=5), time=AxisMasks(count=2, width=9, share=0.5))
POLICIES = {
    "LB": policies.librispeech_basic(),
    "LD": policies.librispeech_double(),
    "SM": policies.switchboard_mild(),
    "SS": policies.switchboard_strong(),
    "conformer": policies.conformer_policy(),
    "audio_spectrogram": policies.audio_spectrogram_policy(),
}


def keys(ids: np.ndarray) -> jax.Array:
    """The keys of examples at one step."""
    return example_keys(jax.random.key(7), {"id": jnp.asarray(ids)})


def masks(augment: SpecAugment, ids: np.ndarray, lengths: np.ndarray, frames: int, mels: int = MELS) -> np.ndarray:
    run = jax.jit(lambda lengths, keys: augment.masks(lengths, keys, frames, mels))
    return np.asarray(run(jnp.asarray(lengths), keys(ids)))


def test_an_example_has_the_same_masks_in_any_batch():
    whole = masks(AUGMENT, IDS, LENGTHS, frames=30)
    microbatches = [masks(AUGMENT, IDS[i::2], LENGTHS[i::2], frames=30) for i in range(2)]
    for i, microbatch in enumerate(microbatches):
        np.testing.assert_array_equal(microbatch, whole[i::2])
    longer = masks(AUGMENT, IDS[::-1], LENGTHS[::-1], frames=41)[::-1]
    np.testing.assert_array_equal(longer[:, :30], whole)
    assert not longer[:, 30:].any()
    assert (whole[0] != whole[5]).any()  # two examples of one length


def test_masks_are_bins_and_frames_and_never_padding():
    augment = SpecAugment(frequency=AxisMasks(count=1, width=5), time=AxisMasks(count=1, share=0.2))
    count, frames = 200, 40
    lengths = np.resize(np.array([40, 25, 4, 0], np.int32), count)
    masked = masks(augment, np.arange(count, dtype=np.int32), lengths, frames)
    for mask, length in zip(masked, lengths, strict=True):
        assert not mask[length:].any()
        bins, spans = mask[:length].all(0), mask.all(1)
        if not spans[:length].all():
            np.testing.assert_array_equal(mask[:length], bins[None] | spans[:length, None])
            assert bins.sum() <= 5 and spans.sum() <= 0.2 * length
            for line in (bins, spans):
                assert np.abs(np.diff(np.pad(line.astype(int), 1))).sum() in (0, 2)  # one run


def test_widths_and_starts_are_uniform():
    axis = AxisMasks(count=1, width=4)
    run = jax.jit(jax.vmap(lambda key: axis.mask(key, 10, jnp.asarray(10))))
    masked = np.asarray(run(keys(np.arange(5000, dtype=np.int32))))
    widths = masked.sum(1)
    np.testing.assert_allclose(np.bincount(widths, minlength=5) / 5000, 0.2, atol=0.02)
    starts = masked[widths == 3].argmax(1)
    np.testing.assert_allclose(np.bincount(starts, minlength=8) / len(starts), 1 / 8, atol=0.03)


@pytest.mark.parametrize(("length", "largest"), [(40, 2), (59, 2), (60, 3), (19, 0), (0, 0)])
def test_the_largest_width_by_share_of_the_length(length, largest):
    axis = AxisMasks(count=1, share=0.05)
    run = jax.jit(jax.vmap(lambda key, length: axis.mask(key, 64, length), (0, None)))
    widths = np.asarray(run(keys(np.arange(300, dtype=np.int32)), jnp.asarray(length))).sum(1)
    assert sorted(set(widths.tolist())) == list(range(largest + 1))


@pytest.mark.parametrize("fill", [Constant(), Constant(0.5), UtteranceMean()])
def test_what_is_written(fill):
    features = np.random.default_rng(3).normal(size=(len(IDS), 30, MELS)).astype(np.float32)
    features *= np.arange(30)[None, :, None] < LENGTHS[:, None, None]
    augment = SpecAugment(AUGMENT.frequency, AUGMENT.time, fill)
    run = jax.jit(lambda features, lengths, keys: augment(features, lengths, keys))
    augmented = np.asarray(run(jnp.asarray(features), jnp.asarray(LENGTHS), keys(IDS)))
    masked = masks(augment, IDS, LENGTHS, frames=30)
    assert augmented.dtype == np.float32 and masked.any()
    np.testing.assert_array_equal(augmented[~masked], features[~masked])
    for row, length in enumerate(LENGTHS):
        value = (
            features[row, :length].mean() if isinstance(fill, UtteranceMean) and length else getattr(fill, "value", 0)
        )
        np.testing.assert_allclose(augmented[row][masked[row]], value, rtol=1e-4, atol=1e-6)


def test_no_masks():
    augment = SpecAugment(frequency=AxisMasks(count=0), time=AxisMasks(count=0))
    assert not masks(augment, IDS, LENGTHS, frames=30).any()


@pytest.mark.parametrize("name", POLICIES)
def test_published_policies(name):
    policy = POLICIES[name]
    assert from_json(to_json(policy)) == policy
    masked = masks(policy, np.arange(64, dtype=np.int32), np.full(64, 300, np.int32), frames=300, mels=128)
    spans = masked.all(2).sum(1)
    largest = policy.time.count * min(policy.time.width or 300, int(300 * policy.time.share))
    assert 0.2 * largest < spans.mean() < 0.6 * largest and spans.max() <= largest


def test_flags():
    changed = override_all(AUGMENT, ["--config.time.share=0.25", "--config.fill=UtteranceMean()"], {})
    assert changed == SpecAugment(AUGMENT.frequency, AxisMasks(count=2, width=9, share=0.25), UtteranceMean())
