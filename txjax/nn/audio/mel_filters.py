"""Filters on a mel scale: from the power spectrum of a frame to the energies of its bands."""

import dataclasses
import functools
from typing import Any

import numpy as np

from txjax.types import config_field

Table = np.ndarray[Any, np.dtype[np.float64]]


@dataclasses.dataclass
class MelFilters:
    """Base class: triangular filters whose edges are equally far apart on a scale of pitch.

    Attributes:
      low: the lower edge of the first filter, in hertz.
      high: the upper edge of the last filter, in hertz. If None, half the sampling rate.
      allowed_empty: how many filters may be so narrow that no bin of the FFT is inside, so that their energy is
        0 for any signal.
    """

    low: float = config_field(0.0, at_least=0)
    high: float | None = config_field(None, above=0)
    allowed_empty: int = config_field(0, at_least=0)

    def upper_edge(self, rate: int) -> float:
        """The upper edge of the last filter, in hertz, at a sampling rate in hertz."""
        return rate / 2 if self.high is None else self.high

    def matrix(self, bins: int, mels: int, rate: int) -> Table:
        """The weights [bins mels], float64, of the bins 0 to rate / 2 of a spectrum in each filter."""
        edges = self.low, self.upper_edge(rate)
        return _matrix(type(self), bins, mels, rate, *edges)  # type: ignore[arg-type]  # a class has a hash

    @staticmethod
    def to_mel(hertz: Table) -> Table:
        """The pitch of frequencies."""
        raise NotImplementedError

    @staticmethod
    def from_mel(mel: Table) -> Table:
        """The frequencies, in hertz, of pitches."""
        raise NotImplementedError

    @classmethod
    def triangles(cls, hertz: Table, edges: Table) -> Table:
        """The weights [bins mels] of the frequencies [bins], in hertz, for the edges [mels + 2], in mel."""
        raise NotImplementedError


class KaldiFilters(MelFilters):
    """Kaldi's filters: mel = 1127 ln(1 + f / 700), triangles straight over the mel scale, of height 1.

    The source is `MelBanks` of Kaldi (Povey et al. 2011).
    """

    @staticmethod
    def to_mel(hertz: Table) -> Table:
        return 1127 * np.log1p(hertz / 700)

    @staticmethod
    def from_mel(mel: Table) -> Table:
        return 700 * np.expm1(mel / 1127)

    @classmethod
    def triangles(cls, hertz: Table, edges: Table) -> Table:
        return triangular_weights(cls.to_mel(hertz), edges)


class HtkFilters(KaldiFilters):
    """HTK's filters (Young et al. 2006, 5.4): on the same scale, straight over hertz, of height 1."""

    @classmethod
    def triangles(cls, hertz: Table, edges: Table) -> Table:
        return triangular_weights(hertz, cls.from_mel(edges))


class SlaneyFilters(MelFilters):
    """Slaney's filters (1998, Auditory Toolbox): straight over hertz, of equal area.

    The scale is linear up to 1000 Hz, 3 f / 200, and logarithmic above: 15 + 27 ln(f / 1000) / ln 6.4.
    """

    @staticmethod
    def to_mel(hertz: Table) -> Table:
        return np.where(hertz < 1000, 3 * hertz / 200, 15 + 27 * np.log(np.maximum(hertz, 1) / 1000) / np.log(6.4))

    @staticmethod
    def from_mel(mel: Table) -> Table:
        return np.where(mel < 15, 200 * mel / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))

    @classmethod
    def triangles(cls, hertz: Table, edges: Table) -> Table:
        corners = cls.from_mel(edges)
        return triangular_weights(hertz, corners) * 2 / (corners[2:] - corners[:-2])[None]


def triangular_weights(points: Table, edges: Table) -> Table:
    """The heights [points filters] of triangles of height 1 over edges[i], edges[i + 1], edges[i + 2]."""
    steps = np.diff(edges)[None]
    distances = points[:, None] - edges[None]
    rising = distances[:, :-2] / steps[:, :-1]
    falling = -distances[:, 2:] / steps[:, 1:]
    return np.maximum(0.0, np.minimum(rising, falling))


@functools.lru_cache(maxsize=64)
def _matrix(kind: type[MelFilters], bins: int, mels: int, rate: int, low: float, high: float) -> Table:
    start, end = kind.to_mel(np.array([low, high]))
    matrix = kind.triangles(np.linspace(0, rate / 2, bins), np.linspace(start, end, mels + 2))
    matrix.flags.writeable = False  # it is shared
    return matrix
