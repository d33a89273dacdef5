"""Scalings of rotary frequencies, for texts longer than the pretraining's."""

import dataclasses
import math

import jax
import numpy as np

from txjax.errors import UserError
from txjax.types import config_field

Frequencies = np.ndarray | jax.Array  # [K/2], radians a position


@dataclasses.dataclass
class RotaryScaling:
    """Base of scalings of the frequencies of `Rotary`."""

    def __call__(self, frequencies: Frequencies) -> Frequencies:
        """The frequencies, scaled."""
        raise NotImplementedError


@dataclasses.dataclass
class LinearScaling(RotaryScaling):
    """All frequencies divided by the factor: positions are interpolated (Chen et al. 2023)."""

    factor: float = config_field(at_least=1)

    def __call__(self, frequencies: Frequencies) -> Frequencies:
        return frequencies / self.factor


@dataclasses.dataclass
class Llama3Scaling(RotaryScaling):
    """Low frequencies divided by the factor, high ones as they are, a linear blend between (Llama 3.1).

    Attributes:
      factor: of the low frequencies.
      low, high: turns in the `length` positions of the pretraining, up to which a frequency is low, and from which it
        is high.
      length: positions of the pretraining.
    """

    factor: float = config_field(8.0, at_least=1)
    low: float = config_field(1.0, above=0)
    high: float = config_field(4.0, above=0)
    length: int = config_field(8192, at_least=1)

    def __call__(self, frequencies: Frequencies) -> Frequencies:
        if self.high <= self.low:
            raise UserError("config.model.positions.scaling.high", f"a number above low = {self.low}", self.high)
        turns = frequencies * (self.length / (2 * math.pi))
        kept = ((turns - self.low) / (self.high - self.low)).clip(0, 1)
        return frequencies * (kept + (1 - kept) / self.factor)
