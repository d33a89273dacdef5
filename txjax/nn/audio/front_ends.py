"""Front ends of published models, equal to the feature extractors of Hugging Face's transformers; one of 8 kHz."""

from typing import Any

from txjax.nn.audio.emphasis import FrameEmphasis, SignalEmphasis
from txjax.nn.audio.extents import FixedFrames, FixedSamples
from txjax.nn.audio.feature_norms import ClippedNorm, FixedNorm, UtteranceNorm
from txjax.nn.audio.framing import Reflected, WholeWindows, ZeroPadded
from txjax.nn.audio.log_energies import FlooredLog, FlooredLog10, OffsetLog
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.mel_filters import KaldiFilters, SlaneyFilters

# Mean and deviation of the features of a data set (Gong et al. 2021, the authors' code).
AUDIOSET = (-4.2677393, 4.5689974)
SPEECH_COMMANDS = (-6.845978, 5.5654526)


def speech2text() -> LogMel:
    """Kaldi's filter banks, normalised by utterance: Speech2Text's (Wang et al. 2020, fairseq S2T)."""
    return LogMel(
        scale=2.0**15,
        taper="povey",
        framing=WholeWindows(),
        emphasis=FrameEmphasis(),
        filters=KaldiFilters(low=20.0),
        log=FlooredLog(),
        norm=UtteranceNorm(),
    )


def audio_spectrogram(statistics: tuple[float, float] = AUDIOSET, frames: int = 1024) -> LogMel:
    """The front end of the Audio Spectrogram Transformer (Gong et al. 2021, 2.1).

    Its filter 3 is narrower than a bin of the FFT, so its energy is 0.

    Args:
      statistics: mean and deviation of the features: `AUDIOSET`, or `SPEECH_COMMANDS` with 128 frames.
      frames: of the features: 1024 for the ten seconds of AudioSet.
    """
    mean, deviation = statistics
    return LogMel(
        mels=128,
        taper="hann",
        framing=WholeWindows(),
        emphasis=FrameEmphasis(),
        filters=KaldiFilters(low=20.0, allowed_empty=1),
        log=FlooredLog(),
        norm=FixedNorm(mean, 2 * deviation),
        extent=FixedFrames(frames),
    )


def parakeet(mels: int = 80) -> LogMel:
    """NeMo's front end, which its Conformers and Parakeet have (Kuchaiev et al. 2019)."""
    return LogMel(
        mels=mels,
        taper="hann",
        framing=ZeroPadded(),
        emphasis=SignalEmphasis(),
        filters=SlaneyFilters(),
        log=OffsetLog(),
        norm=UtteranceNorm(correction=1, epsilon=1e-5),
    )


def whisper(mels: int = 80) -> LogMel:
    """Whisper's front end (Radford et al. 2023, 2.2): 30 seconds, cut or padded with silence.

    Args:
      mels: 80, or 128 from large-v3 on.
    """
    return LogMel(
        mels=mels,
        fft=400,
        taper="periodic_hann",
        framing=Reflected(),
        filters=SlaneyFilters(),
        log=FlooredLog10(),
        norm=ClippedNorm(),
        extent=FixedSamples(480_000),
    )


def telephone(mels: int = 32, **fields: Any) -> LogMel:
    """Kaldi's filter banks of audio at 8 kHz, a frame every 10 ms: Speech2Text's for half the rate.

    Args:
      mels: number of filters. More than about 40 are narrower than the bins of the FFT at low frequencies.
      fields: of `LogMel` that differ.
    """
    style: dict[str, Any] = dict(
        rate=8000,
        window=200,
        hop=80,
        fft=256,
        scale=2.0**15,
        framing=WholeWindows(),
        emphasis=FrameEmphasis(),
        filters=KaldiFilters(low=20.0),
        log=FlooredLog(),
    )
    return LogMel(**style | {"mels": mels} | fields)
