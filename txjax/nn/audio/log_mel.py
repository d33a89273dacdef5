"""The front end: from a waveform to the logarithms of its energies on a mel scale."""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.errors import UserError
from txjax.nn.audio.emphasis import Emphasis
from txjax.nn.audio.extents import Extent
from txjax.nn.audio.feature_norms import FeatureNorm, UtteranceNorm
from txjax.nn.audio.framing import TAPERS, Count, Framing, ZeroPadded, taper_weights
from txjax.nn.audio.log_energies import LogEnergies, OffsetLog
from txjax.nn.audio.mel_filters import MelFilters, SlaneyFilters
from txjax.nn.audio.subsampling import frame_mask, zero_padding
from txjax.types import config_field

FIELD = "config.model.front_end"


@dataclasses.dataclass
class LogMel:
    """Log-mel features of a waveform; it has no parameters and works inside a jitted step.

    In this order: extent of the audio, scale, emphasis, frames, taper, power of the FFT, mel filters, logarithm,
    extent of the features, norm. Features are of the audio's dtype, float32 or float64. What is behind the end of a
    row is not read, so a row's features don't depend on how far it is padded (but for the rounding of the product
    with the filters, whose kernel XLA chooses by its size).

    Attributes:
      rate: samples a second of the audio.
      mels: number of mel filters, M.
      window: samples of a frame.
      hop: samples from one frame to the next.
      fft: samples of the FFT; a frame is padded with zeros to it.
      scale: a factor of the samples, which are in [-1, 1].
      taper: the window function: "hann", "periodic_hann" or "povey".
      framing: where the frames are: `WholeWindows`, `ZeroPadded`, `Reflected`.
      emphasis: pre-emphasis: none, `SignalEmphasis`, `FrameEmphasis`.
      filters: `SlaneyFilters`, `KaldiFilters`, `HtkFilters`.
      log: `OffsetLog`, `FlooredLog`, `FlooredLog10`.
      norm: `UtteranceNorm`, `FixedNorm`, `ClippedNorm`, or none: `FeatureNorm`.
      extent: `FixedSamples`, `FixedFrames`, or as long as the audio: `Extent`.
    """

    rate: int = config_field(16_000, at_least=1)
    mels: int = config_field(80, at_least=1)
    window: int = config_field(400, at_least=1)
    hop: int = config_field(160, at_least=1)
    fft: int = config_field(512, at_least=1)
    scale: float = config_field(1.0, above=0)
    taper: str = config_field("hann", choices=tuple(TAPERS))
    framing: Framing = config_field(factory=ZeroPadded)
    emphasis: Emphasis = config_field(factory=Emphasis)
    filters: MelFilters = config_field(factory=SlaneyFilters)
    log: LogEnergies = config_field(factory=OffsetLog)
    norm: FeatureNorm = config_field(factory=UtteranceNorm)
    extent: Extent = config_field(factory=Extent)

    def check(self) -> None:
        """Raises UserError for settings that don't fit each other."""
        if self.window > self.fft:
            raise UserError(f"{FIELD}.fft", f"at least the window of {self.window} samples", self.fft)
        low = self.filters.low
        high = self.filters.upper_edge(self.rate)
        if high > self.rate / 2:
            raise UserError(f"{FIELD}.filters.high", f"at most {self.rate / 2:g} Hz, half the rate", high)
        if low >= high:
            raise UserError(f"{FIELD}.filters.low", f"less than the upper edge of {high:g} Hz", low)
        empty = int((self.mel_matrix().sum(0) == 0).sum())
        if empty > self.filters.allowed_empty:
            hint = f"fewer mels, a longer fft, or filters.allowed_empty={empty}: their energy is always 0"
            expected = f"filters that have a bin of an FFT of {self.fft} samples inside"
            raise UserError(f"{FIELD}.mels", expected, f"{self.mels}, of which {empty} have none", hint=hint)

    def mel_matrix(self) -> np.ndarray:
        """The filters [fft // 2 + 1, mels], float64."""
        return self.filters.matrix(self.fft // 2 + 1, self.mels, self.rate)

    def frames(self, length: Count) -> Count:
        """The frames of so many samples that are not padding: int32 for an array, a number for a number."""
        return self.extent.frames(length, self._frames_read, self.hop)

    def __call__(
        self, audio: Float[Array, "B T"], audio_length: Int[Array, "B"]
    ) -> tuple[Float[Array, "B F M"], Int[Array, "B"]]:
        """The features, 0 behind an utterance's end unless the extent is fixed, and how many frames it has.

        Args:
          audio: samples at `rate` in [-1, 1].
          audio_length: samples of each row that are not padding.

        Raises:
          UserError: the settings don't fit each other.
        """
        self.check()
        samples, length = self.extent.of_audio(zero_padding(audio, audio_length), audio_length)
        emphasised = zero_padding(self.emphasis.of_signal(samples * self.scale), length)
        frames = self.emphasis.of_frames(self.framing.cut(emphasised, length, self.window, self.hop))
        taper = taper_weights(self.taper, self.window).astype(audio.dtype)
        spectrum = jnp.fft.rfft(frames * taper[None, None], self.fft)
        power = jnp.square(spectrum.real) + jnp.square(spectrum.imag)
        matrix = self.mel_matrix().astype(audio.dtype)
        energies = jnp.einsum("bfk,km->bfm", power, matrix, precision="highest")
        mask = frame_mask(jnp.asarray(self._frames_read(length)), frames.shape[1])
        features, mask = self.extent.of_features(jnp.where(mask[..., None], self.log(energies), 0), mask)
        features = jnp.where(mask[..., None], self.norm(features, mask), 0)
        return features, jnp.asarray(self.frames(audio_length), jnp.int32)

    def _frames_read(self, length: Count) -> Count:
        return self.framing.count(length, self.window, self.hop)
