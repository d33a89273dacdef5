"""Recordings as WAV files, for pages."""

import base64
import io
import wave

import numpy as np
from jaxtyping import Float

FULL_SCALE = 2**15 - 1


def wav(samples: Float[np.ndarray, "T"], rate: int) -> bytes:
    """A WAV file of 16 bits of samples in [-1, 1], beyond which they are clipped; `rate` of them are a second."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(np.round(np.clip(samples, -1, 1) * FULL_SCALE).astype("<i2").tobytes())
    return file.getvalue()


def wav_address(content: bytes) -> str:
    """A WAV file as a data URL."""
    return "data:audio/wav;base64," + base64.b64encode(content).decode()
