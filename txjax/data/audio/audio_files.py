"""Decoding of audio files by libsndfile: WAV of 8 to 32 bits or floats, and FLAC."""

import dataclasses
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from jaxtyping import Float32

# The kinds of files and of samples that are read. Others are never given to libsndfile, which has readers of many.
SAMPLES = ("PCM_U8", "PCM_S8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
MOST_SAMPLES = 2**28  # of all channels of a file, as declared by its header: 4.6 hours at 16 kHz
_RIFF_HEADER = 12  # bytes before the first chunk of a WAV file
_CHUNK_HEADER = 8  # bytes of the name and the size of a chunk


class UnusableAudio(ValueError):
    """Audio that no example can be made of; its text says why."""


@dataclasses.dataclass(frozen=True)
class AudioHeader:
    """What the header of an audio file declares.

    Attributes:
      samples: of each channel.
      channels: their number.
      rate: samples a second.
    """

    samples: int
    channels: int
    rate: int


def read_header(content: bytes) -> AudioHeader:
    """The header of an audio file. No sample is decoded.

    Raises:
      UnusableAudio: it is empty, damaged, ends early or is of another kind.
    """
    with _open_audio(content) as audio:
        return AudioHeader(audio.frames, audio.channels, audio.samplerate)


def decode_audio(content: bytes) -> tuple[Float32[np.ndarray, "T C"], int]:
    """The samples of an audio file in [-1, 1], and the samples a second.

    Integers of n bits are divided by 2^(n - 1); floats stay as they are.

    Raises:
      UnusableAudio: as `read_header`, or the samples end early.
    """
    with _open_audio(content) as audio:
        samples = audio.read(dtype="float32", always_2d=True)
        if len(samples) != audio.frames:
            raise UnusableAudio(f"truncated: {len(samples):,} of {audio.frames:,} samples are there")
        return samples, audio.samplerate


@contextmanager
def _open_audio(content: bytes) -> Iterator[Any]:
    """The library's file, of which only the header is read. Errors inside are raised as UnusableAudio."""
    import soundfile

    _check_kind(content)
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as audio:
            if audio.subtype not in SAMPLES:
                raise UnusableAudio(f"samples of {audio.subtype}, which are neither integers nor floats")
            if audio.frames * audio.channels > MOST_SAMPLES:
                raise UnusableAudio(f"{audio.frames:,} samples declared, and at most {MOST_SAMPLES:,} are decoded")
            yield audio
    except soundfile.SoundFileError as error:
        reason = str(getattr(error, "error_string", error)).splitlines()[0]
        raise UnusableAudio(f"damaged or truncated: {reason}"[:120]) from error


def _check_kind(content: bytes) -> None:
    """Raises UnusableAudio for a file that is neither WAV nor FLAC, or a WAV that is shorter than it declares."""
    if not content:
        raise UnusableAudio("an empty file")
    if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
        if missing := _missing_bytes(content):
            raise UnusableAudio(f"truncated: {missing:,} bytes of the declared samples are missing")
    elif content[:4] != b"fLaC":
        raise UnusableAudio("neither WAV nor FLAC")


def _missing_bytes(content: bytes) -> int:
    """The bytes by which a WAV file is shorter than its samples' chunk declares, which libsndfile passes over."""
    start = _RIFF_HEADER
    while start + _CHUNK_HEADER <= len(content):
        name = content[start : start + 4]
        size = int.from_bytes(content[start + 4 : start + _CHUNK_HEADER], "little")
        start += _CHUNK_HEADER + size + size % 2  # chunks begin at even bytes
        if name == b"data":
            return max(0, start - size % 2 - len(content))
    return 0
