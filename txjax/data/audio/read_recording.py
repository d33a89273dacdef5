"""One recording from a file of its own."""

import logging
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from txjax.data.audio.audio_checks import AudioChecks, Loudness
from txjax.data.audio.audio_files import UnusableAudio, decode_audio
from txjax.data.audio.resampling import resample

logger = logging.getLogger("txjax")


def read_recording(path: Path, rate: int, checks: AudioChecks) -> Float32[np.ndarray, "T"]:
    """The samples of a WAV or FLAC file at a rate. Logs that channels are mixed, or that another rate is resampled.

    Raises:
      UnusableAudio: it can't be decoded, or is beyond the bounds of usable audio.
    """
    stored, stored_rate = decode_audio(path.read_bytes())
    samples = stored.mean(1)
    if fault := checks.fault_of_size(len(samples), stored_rate) or checks.fault_of(Loudness.measure(samples)):
        raise UnusableAudio(fault)
    if stored.shape[1] > 1:
        logger.warning("%s: its %d channels are mixed to one", path, stored.shape[1])
    if stored_rate == rate:
        return samples
    logger.warning("%s: resampled from %d Hz to %d Hz", path, stored_rate, rate)
    return resample(samples, stored_rate, rate)
