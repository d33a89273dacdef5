"""How long the features of an utterance are: as long as its audio, or the same for all."""

import dataclasses
from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.nn.audio.framing import Count
from txjax.types import config_field


@dataclasses.dataclass
class Extent:
    """Base class: features as long as the audio, and frames of padding that no one reads."""

    def frames(self, length: Count, count: Callable[[Count], Count], hop: int) -> Count:
        """The frames of an utterance of so many samples that are not padding.

        Args:
          count: the frames of so many samples.
        """
        return count(length)

    def of_audio(
        self, audio: Float[Array, "B T"], length: Int[Array, "B"]
    ) -> tuple[Float[Array, "B S"], Int[Array, "B"]]:
        """The samples from which features are computed, and how many of each row are read."""
        return audio, length

    def of_features(
        self, features: Float[Array, "B F M"], mask: Bool[Array, "B F"]
    ) -> tuple[Float[Array, "B G M"], Bool[Array, "B G"]]:
        """The features before they are normalised, 0 outside the mask, and the frames that are kept."""
        return features, mask


@dataclasses.dataclass
class FixedSamples(Extent):
    """The audio is cut, or padded with silence, to so many samples: Whisper's 30 seconds.

    The model reads the silence, so all frames are kept. Those whose middle is before the audio's end are not padding.
    """

    size: int = config_field(480_000, at_least=1)

    def frames(self, length: Count, count: Callable[[Count], Count], hop: int) -> Count:
        return _at_most(-(-length // hop), int(count(self.size)))  # type: ignore[arg-type]

    def of_audio(
        self, audio: Float[Array, "B T"], length: Int[Array, "B"]
    ) -> tuple[Float[Array, "B S"], Int[Array, "B"]]:
        more = max(0, self.size - audio.shape[1])
        fixed = jnp.pad(audio, ((0, 0), (0, more)))[:, : self.size]
        return fixed, jnp.full_like(length, self.size)


@dataclasses.dataclass
class FixedFrames(Extent):
    """The features are cut, or padded with zeros before the norm, to so many frames (Gong et al. 2021).

    The model reads the padding, so all frames are kept.
    """

    size: int = config_field(1024, at_least=1)

    def frames(self, length: Count, count: Callable[[Count], Count], hop: int) -> Count:
        return _at_most(count(length), self.size)

    def of_features(
        self, features: Float[Array, "B F M"], mask: Bool[Array, "B F"]
    ) -> tuple[Float[Array, "B G M"], Bool[Array, "B G"]]:
        more = max(0, self.size - features.shape[1])
        fixed = jnp.pad(features, ((0, 0), (0, more), (0, 0)))[:, : self.size]
        return fixed, jnp.ones(fixed.shape[:2], bool)


def _at_most(count: Count, limit: int) -> Count:
    return min(count, limit) if isinstance(count, int) else jnp.minimum(count, limit)
