"""Published front ends equal the feature extractors of transformers."""

import functools
import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.nn.audio import front_ends
from txjax.nn.audio.extents import Extent
from txjax.nn.audio.log_mel import LogMel

torch = pytest.importorskip("torch", reason="pip install '.[parity]'")
transformers = pytest.importorskip("transformers", reason="pip install '.[parity]'")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # the reference has warnings of its own
]

LENGTHS = (16001, 12077, 9333, 561)
TOO_SHORT = (16001, 399, 240)  # the last two are shorter than a window
# Few frames have small deviations, which magnify the rounding of a reference that has one in float32.
LEAST_FRAMES = 16
STATISTICS = dict(zip(("mean", "std"), front_ends.SPEECH_COMMANDS, strict=True))
CASES: dict[str, tuple[LogMel, str, dict[str, Any]]] = {
    "speech2text": (front_ends.speech2text(), "Speech2TextFeatureExtractor", {}),
    "audioset": (front_ends.audio_spectrogram(), "ASTFeatureExtractor", {}),
    "speech_commands": (
        front_ends.audio_spectrogram(front_ends.SPEECH_COMMANDS, frames=128),
        "ASTFeatureExtractor",
        {"max_length": 128, **STATISTICS},
    ),
    "parakeet": (front_ends.parakeet(), "ParakeetFeatureExtractor", {}),
    "whisper": (front_ends.whisper(), "WhisperFeatureExtractor", {}),
    "whisper_128": (front_ends.whisper(mels=128), "WhisperFeatureExtractor", {"feature_size": 128}),
}


def sound_of(length: int) -> np.ndarray:
    """Noise over the whole band whose loudness changes, float32."""
    loudness = 0.1 + 0.09 * np.sin(np.arange(length) / 700)
    return (loudness * np.random.default_rng(length).normal(size=length)).astype(np.float32)


def double_parakeet(extractor: Any) -> Any:
    """The extractor with its spectra in float64; it has its formulas in PyTorch, in float32."""
    plain = extractor._torch_extract_fbank_features
    filters = transformers.audio_utils.mel_filter_bank(
        num_frequency_bins=257,
        num_mel_filters=extractor.feature_size,
        min_frequency=0.0,
        max_frequency=8000,
        sampling_rate=16000,
        norm="slaney",
        mel_scale="slaney",
    )
    extractor.mel_filters = torch.from_numpy(np.ascontiguousarray(filters.T))

    def spectra(waveform: Any, device: str) -> Any:
        torch.set_default_dtype(torch.float64)
        try:
            return plain(waveform.double(), device)
        finally:
            torch.set_default_dtype(torch.float32)

    extractor._torch_extract_fbank_features = spectra
    return extractor


def reference(kind: str, options: dict[str, Any], lengths: tuple[int, ...], double: bool) -> tuple[np.ndarray, Any]:
    """The features [B F M] of the extractor, and the frames of each row where it has a mask.

    Args:
      double: whether it computes in float64 where it has such a way.
    """
    logging.getLogger("transformers").setLevel(logging.ERROR)
    extractor = getattr(transformers, kind)(**options)
    rows = [sound_of(length) for length in lengths]
    run = functools.partial(extractor, rows, sampling_rate=16000, return_tensors="np")
    if kind.startswith("Speech2Text"):
        batch = run(padding=True)
        return batch["input_features"], batch["attention_mask"].sum(1)
    if kind.startswith("AST"):
        return run()["input_values"], None
    if kind.startswith("Parakeet"):
        batch = (double_parakeet(extractor) if double else extractor)(rows, sampling_rate=16000)
        mask = np.asarray(batch["attention_mask"])
        assert not mask[:, -1].any()  # a frame more than any row has
        return np.asarray(batch["input_features"])[:, :-1], mask.sum(1)
    if double:
        extractor._torch_extract_fbank_features = extractor._np_extract_fbank_features
    batch = run(return_attention_mask=True)
    return batch["input_features"].transpose(0, 2, 1), batch["attention_mask"].sum(1)


def features(front_end: LogMel, lengths: tuple[int, ...], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    audio = np.zeros((len(lengths), max(lengths)), dtype)
    for row, length in zip(audio, lengths, strict=True):
        row[:length] = sound_of(length)
    run = jax.jit(lambda audio, length: front_end(audio, length))
    values, frames = run(jnp.asarray(audio), jnp.asarray(lengths, jnp.int32))
    assert values.dtype == dtype
    return np.asarray(values), np.asarray(frames)


@pytest.mark.parametrize("name", CASES)
def test_front_ends_equal_the_extractors(name):
    front_end, kind, options = CASES[name]
    for dtype in ("float64", "float32"):
        with jax.enable_x64(dtype == "float64"):
            values, frames = features(front_end, LENGTHS, dtype)
        expected, expected_frames = reference(kind, options, LENGTHS, dtype == "float64")
        assert values.shape == expected.shape
        if expected_frames is not None:
            np.testing.assert_array_equal(frames, expected_frames)
        if front_end.extent == Extent():
            padding = np.arange(values.shape[1])[None] >= frames[:, None]
            assert (values[padding] == 0).all() and (expected[padding] == 0).all()
        errors = np.abs(values - expected)[frames >= LEAST_FRAMES]
        if dtype == "float64":
            assert errors.max() <= 1e-5
        else:
            assert np.quantile(errors, 0.999) <= 1e-4


@pytest.mark.parametrize("name", ["speech2text", "parakeet", "whisper"])
def test_masks_of_waveforms_shorter_than_a_window(name):
    front_end, kind, options = CASES[name]
    _, expected_frames = reference(kind, options, TOO_SHORT, double=False)
    assert [front_end.frames(length) for length in TOO_SHORT] == expected_frames.tolist()
    np.testing.assert_array_equal(features(front_end, TOO_SHORT, "float32")[1], expected_frames)
