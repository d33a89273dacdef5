"""Mixing of two waveforms for classification.

As with images (`data/images/mixing.py`), the second example is any of the data set, drawn with the example's
own generator, so a batch does not depend on how it is split over hosts.
"""

import dataclasses

import numpy as np

from txjax.types import config_field


@dataclasses.dataclass
class WaveformMixup:
    """Mixup: share * audio + (1 - share) * other, share ~ Beta(alpha, alpha) (Gong et al. 2021, 2.2).

    Both waveforms have their means taken off before. The other one is cut, or padded with zeros, to the length of
    the first, whose length stays. The recipe for AudioSet has alpha 10 and mixes half of the examples. An example
    that isn't mixed is unchanged, and its share is 1.

    Attributes:
      alpha: of the beta distribution.
      probability: of an example to be mixed.
    """

    alpha: float = config_field(10.0, above=0)
    probability: float = config_field(0.5, at_least=0, at_most=1)

    def __call__(self, audio: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        """The mixed waveform and the share of `audio` in it.

        Args:
          audio: float32 [T], without padding.
          other: float32 [S], without padding.
        """
        mixes = rng.random() < self.probability
        share = np.float32(rng.beta(self.alpha, self.alpha))
        if not mixes:
            return audio, 1.0
        mixed = share * (audio - audio.mean())
        shared = min(len(audio), len(other))
        mixed[:shared] += (1 - share) * (other - other.mean())[:shared]
        return mixed, float(share)
