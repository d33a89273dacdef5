"""Log-mel features: published settings, padding, settings that don't fit, the formula in numpy."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from txjax.flops import count
from txjax.models.audio.audio_encoder import AudioEncoder
from txjax.nn.audio import front_ends
from txjax.nn.audio.emphasis import Emphasis, FrameEmphasis, SignalEmphasis
from txjax.nn.audio.extents import FixedFrames, FixedSamples
from txjax.nn.audio.feature_norms import ClippedNorm, FeatureNorm, FixedNorm, UtteranceNorm
from txjax.nn.audio.framing import Framing, Reflected, WholeWindows, ZeroPadded
from txjax.nn.audio.log_energies import FlooredLog, FlooredLog10, LogEnergies, OffsetLog
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.mel_filters import HtkFilters, KaldiFilters, MelFilters, SlaneyFilters
from txjax.overrides import override_all
from txjax.tree import check_fields, from_json, to_json
from txjax.types import UserError

LENGTHS = np.array([12077, 9333], np.int32)  # more than 2^20 multiplications with the filters: one kernel for both
PUBLISHED = {
    "speech2text": front_ends.speech2text(),
    "audio_spectrogram": front_ends.audio_spectrogram(),
    "speech_commands": front_ends.audio_spectrogram(front_ends.SPEECH_COMMANDS, frames=128),
    "parakeet": front_ends.parakeet(),
    "whisper": front_ends.whisper(),
    "whisper_128": front_ends.whisper(mels=128),
}
# Few samples, so that the formula can be written out: bins 0, 10, ..., 50 Hz.
SMALL = LogMel(rate=100, mels=3, window=8, hop=4, fft=10, norm=FeatureNorm())


def waveforms(lengths: np.ndarray, padding: float = 0.0) -> np.ndarray:
    """Noise of a tenth of the full scale, float32, with `padding` behind each row's end."""
    audio = np.random.default_rng(5).normal(0, 0.1, (len(lengths), max(lengths))).astype(np.float32)
    return np.where(np.arange(max(lengths))[None] < lengths[:, None], audio, padding).astype(np.float32)


def features(front_end: LogMel, audio: np.ndarray, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
    program = jax.jit(lambda audio, length: front_end(audio, length))
    values, frames = program(jnp.asarray(audio), jnp.asarray(lengths, jnp.int32))
    return np.asarray(values), np.asarray(frames)


@pytest.mark.parametrize("name", PUBLISHED)
def test_padding_is_not_read(name):
    """Features of a padded row are those of the row alone, to the bit, whatever stands behind its end."""
    front_end = PUBLISHED[name]
    values, frames = features(front_end, waveforms(LENGTHS, padding=np.nan), LENGTHS)
    for row, length in enumerate(LENGTHS):
        alone, (alone_frames,) = features(front_end, waveforms(LENGTHS)[row : row + 1, :length], [length])
        assert frames[row] == alone_frames == front_end.frames(int(length))
        read = alone.shape[1]  # all of them where the extent is fixed, silence included
        np.testing.assert_array_equal(values[row, :read], alone[0])
        assert (values[row, read:] == 0).all()


@pytest.mark.parametrize(
    ("framing", "expected"),
    [
        (WholeWindows(), {0: 0, 399: 0, 400: 1, 559: 1, 560: 2}),
        (ZeroPadded(), {0: 0, 159: 0, 160: 1, 399: 2, 400: 2, 560: 3}),
        (Reflected(), {0: 0, 200: 0, 201: 1, 399: 2, 560: 3}),
    ],
    ids=lambda part: type(part).__name__,
)
def test_frames_of_short_waveforms(framing, expected):
    front_end = LogMel(framing=framing)
    assert {length: front_end.frames(length) for length in expected} == expected
    lengths = np.array(list(expected), np.int32)
    np.testing.assert_array_equal(front_end.frames(jnp.asarray(lengths)), list(expected.values()))
    values, frames = features(front_end, waveforms(lengths), lengths)
    np.testing.assert_array_equal(frames, list(expected.values()))
    assert np.isfinite(values).all() and values.shape == (len(lengths), max(frames), 80)
    assert features(front_end, waveforms(lengths[1:2]), lengths[1:2])[0].shape == (1, expected[int(lengths[1])], 80)


def test_fixed_extents():
    samples = LogMel(framing=Reflected(), norm=ClippedNorm(), extent=FixedSamples(1600))
    assert [samples.frames(n) for n in (0, 1, 160, 161, 1599, 5000)] == [0, 1, 1, 2, 10, 10]
    lengths = np.array([5000, 800], np.int32)
    values, frames = features(samples, waveforms(lengths), lengths)
    assert values.shape == (2, 10, 80) and frames.tolist() == [10, 5]
    np.testing.assert_array_equal(values[:1], features(samples, waveforms(lengths)[:1, :1600], [1600])[0])

    frames_only = LogMel(framing=WholeWindows(), norm=FixedNorm(-4.0, 8.0), extent=FixedFrames(6))
    values, frames = features(frames_only, waveforms(lengths), lengths)
    assert values.shape == (2, 6, 80) and frames.tolist() == [6, 3]
    assert (values[1, 3:] == 0.5).all()  # zeros are added before the norm


@pytest.mark.parametrize("name", ["speech2text", "audio_spectrogram", "parakeet", "whisper"])
def test_silence_and_single_frames_are_finite(name):
    values, _ = features(PUBLISHED[name], np.zeros((2, 1600), np.float32), [1600, 400])
    assert np.isfinite(values).all()
    if isinstance(PUBLISHED[name].norm, UtteranceNorm):
        assert (values == 0).all()


def formula(front_end: LogMel, audio: np.ndarray) -> np.ndarray:
    """The log energies [F M] of one waveform, window by window, float64."""
    window, hop, fft = front_end.window, front_end.hop, front_end.fft
    signal = audio.astype(np.float64) * front_end.scale
    if isinstance(front_end.emphasis, SignalEmphasis):
        signal = np.append(signal[:1], signal[1:] - front_end.emphasis.factor * signal[:-1])
    half = window // 2
    match front_end.framing:
        case WholeWindows():
            starts, padded = range(0, len(audio) - window + 1, hop), signal
        case ZeroPadded():
            starts, padded = range(0, hop * (len(audio) // hop), hop), np.pad(signal, half)
        case Reflected():
            starts, padded = range(0, hop * (len(audio) // hop), hop), np.pad(signal, half, mode="reflect")
    hann = np.array([np.sin(np.pi * t / (window - (front_end.taper != "periodic_hann"))) ** 2 for t in range(window)])
    taper = hann**0.85 if front_end.taper == "povey" else hann
    rows = []
    for start in starts:
        frame = padded[start : start + window]
        if isinstance(front_end.emphasis, FrameEmphasis):
            frame = frame - frame.mean()
            frame = frame - front_end.emphasis.factor * np.append(frame[:1], frame[:-1])
        turns = np.exp(-2j * np.pi * np.outer(np.arange(fft // 2 + 1), np.arange(window)) / fft)
        energies = front_end.mel_matrix().T @ np.abs(turns @ (frame * taper)) ** 2
        match front_end.log:
            case OffsetLog(offset):
                rows.append(np.log(energies + offset))
            case FlooredLog(floor):
                rows.append(np.log(np.maximum(energies, floor)))
            case FlooredLog10(floor):
                rows.append(np.log10(np.maximum(energies, floor)))
    return np.array(rows)


@pytest.mark.parametrize(
    ("framing", "emphasis", "taper", "log"),
    [
        (WholeWindows(), FrameEmphasis(0.9), "povey", FlooredLog(0.1)),
        (ZeroPadded(), SignalEmphasis(0.9), "hann", OffsetLog(0.1)),
        (Reflected(), Emphasis(), "periodic_hann", FlooredLog10(0.1)),
    ],
    ids=["kaldi", "nemo", "whisper"],
)
def test_formula(framing: Framing, emphasis: Emphasis, taper: str, log: LogEnergies) -> None:
    parts: dict[str, Any] = dict(framing=framing, emphasis=emphasis, taper=taper, log=log, scale=30.0)
    front_end = dataclasses.replace(SMALL, filters=HtkFilters(), **parts)
    lengths = np.array([21, 16], np.int32)
    audio = waveforms(lengths)
    with jax.enable_x64(True):
        values, _ = features(front_end, audio.astype(np.float64), lengths)
    assert values.dtype == np.float64
    for row, length in enumerate(lengths):
        expected = formula(front_end, audio[row, :length])
        assert len(expected) == front_end.frames(int(length)) >= 3 and len(np.unique(expected)) > 6
        np.testing.assert_allclose(values[row, : len(expected)], expected, atol=1e-12)


@pytest.mark.parametrize("norm", [UtteranceNorm(), UtteranceNorm(correction=1, epsilon=0.1), ClippedNorm(span=1.0)])
def test_norms(norm: FeatureNorm) -> None:
    raw, frames = features(SMALL, waveforms(np.array([40, 29])), [40, 29])
    values, _ = features(dataclasses.replace(SMALL, norm=norm), waveforms(np.array([40, 29])), [40, 29])
    for row, count_ in enumerate(frames):
        x = raw[row, :count_]
        if isinstance(norm, UtteranceNorm):
            expected = (x - x.mean(0)) / (x.std(0, ddof=norm.correction) + norm.epsilon)
        else:
            expected = (np.maximum(x, x.max() - 1) + 4) / 4
        np.testing.assert_allclose(values[row, :count_], expected, atol=2e-5)


@pytest.mark.parametrize("filters", [KaldiFilters(), HtkFilters(), SlaneyFilters()])
def test_filters(filters: MelFilters) -> None:
    matrix = filters.matrix(bins=4001, mels=20, rate=8000)
    assert matrix.shape == (4001, 20) and matrix.min() == 0
    peaks = filters.to_mel(matrix.argmax(0).astype(np.float64))
    steps = np.diff(peaks)
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.05)  # equally far apart, but for the bins of 1 Hz
    if isinstance(filters, SlaneyFilters):
        np.testing.assert_allclose(matrix.sum(0), 1, atol=1e-2)
    else:
        np.testing.assert_allclose(matrix.max(0), 1, atol=2e-2)
    np.testing.assert_allclose(filters.from_mel(filters.to_mel(np.arange(4000.0))), np.arange(4000.0), atol=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fft": 256}, "config.model.front_end.fft: expected at least the window of 400 samples, got 256"),
        (
            {"rate": 8000, "filters": SlaneyFilters(high=5000.0)},
            "filters.high: expected at most 4000 Hz, half the rate",
        ),
        ({"filters": KaldiFilters(low=900.0, high=900.0)}, "filters.low: expected less than the upper edge of 900 Hz"),
        ({"mels": 300}, "mels: expected filters that have a bin of an FFT of 512 samples inside, got '300, of which"),
        (
            {"mels": 128, "filters": KaldiFilters(low=20.0)},
            "of which 1 have none'; fewer mels, a longer fft, or filters",
        ),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        features(dataclasses.replace(LogMel(), **changes), np.zeros((1, 1600), np.float32), [1600])
    assert message in str(error.value)


@dataclasses.dataclass
class Tree:
    """A model with a front end, as a config has it."""

    model: AudioEncoder = dataclasses.field(
        default_factory=lambda: AudioEncoder(width=8, depth=1, heads=2, front_end=front_ends.speech2text())
    )


def test_flags_and_files():
    flags = ["--config.model.front_end.mels=40", "--config.model.front_end.filters=HtkFilters(low=50)"]
    model = override_all(Tree(), [*flags, "--config.model.front_end.norm.epsilon=0.5"], {}).model
    parts: dict[str, Any] = dict(mels=40, filters=HtkFilters(low=50.0), norm=UtteranceNorm(epsilon=0.5))
    assert model.front_end == dataclasses.replace(front_ends.speech2text(), **parts)
    with pytest.raises(UserError, match=r"front_end.taper: expected one of 'hann', .* got 'hamming'"):
        check_fields(override_all(Tree(), ["--config.model.front_end.taper=hamming"], {}))
    for front_end in PUBLISHED.values():
        assert from_json(to_json(front_end)) == front_end


def test_a_model_reads_the_features_of_its_waveforms():
    model = Tree().model
    batch = {"audio": jnp.asarray(waveforms(LENGTHS)), "audio_length": jnp.asarray(LENGTHS)}
    inputs = jax.eval_shape(model.inputs, batch)
    assert {name: x.shape for name, x in inputs.items()} == {"features": (2, 73, 80), "features_length": (2,)}


def test_flops():
    audio, length = jax.ShapeDtypeStruct((3, 1600), "float32"), jax.ShapeDtypeStruct((3,), "int32")
    per_frame = 2.5 * 512 * 9 + 2 * 257 * 80
    assert count(front_ends.parakeet(), audio, length) == 3 * 10 * per_frame
