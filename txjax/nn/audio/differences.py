"""Features with their changes in time."""

import dataclasses
import functools

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.audio.framing import Count
from txjax.nn.audio.log_mel import LogMel
from txjax.nn.audio.subsampling import zero_padding
from txjax.types import config_field


@dataclasses.dataclass
class Differences:
    """A front end, and behind its features their first, second, ... differences in time ("deltas").

    d_t = sum over n = 1, ..., reach of n (x_{t+n} - x_{t-n}), divided by 2 sum n^2; beyond an end of the utterance is
    the frame at the end (Young et al. 2006, The HTK Book, 5.9).

    Attributes:
      front_end: of the features.
      order: how many differences there are, each of the one before.
      reach: frames on either side.
    """

    front_end: LogMel = config_field(factory=LogMel)
    order: int = config_field(2, at_least=1)
    reach: int = config_field(2, at_least=1)

    @property
    def rate(self) -> int:
        """Samples a second of the audio."""
        return self.front_end.rate

    @property
    def hop(self) -> int:
        """Samples from one frame to the next."""
        return self.front_end.hop

    def frames(self, length: Count) -> Count:
        """The frames of so many samples, as `LogMel.frames`."""
        return self.front_end.frames(length)

    def __call__(
        self, audio: Float[Array, "B T"], audio_length: Int[Array, "B"]
    ) -> tuple[Float[Array, "B F N"], Int[Array, "B"]]:
        """The features and their differences, N = (order + 1) M, and how many frames there are."""
        features, length = self.front_end(audio, audio_length)
        planes = [features]
        for _ in range(self.order):
            planes.append(self.difference(planes[-1], length))
        return jnp.concatenate(planes, -1), length

    def difference(self, x: Float[Array, "B F M"], length: Int[Array, "B"]) -> Float[Array, "B F M"]:
        """The difference of features of these lengths, 0 in padding."""
        index = jnp.arange(x.shape[1], dtype=jnp.int32)[None]
        last = jnp.maximum(length - 1, 0)[:, None]

        def shifted(frames: int) -> Float[Array, "B F M"]:
            return jnp.take_along_axis(x, jnp.clip(index + frames, 0, last)[..., None], axis=1)

        steps = range(1, self.reach + 1)
        total = functools.reduce(jnp.add, [n * (shifted(n) - shifted(-n)) for n in steps])
        return zero_padding(total / (2 * sum(n * n for n in steps)), length)
