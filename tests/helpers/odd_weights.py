"""Windows of text whose weights are 0, NaN or uneven for some examples."""

import dataclasses

import numpy as np

from txjax.data import NextTokenWindows, Source


@dataclasses.dataclass
class OddWeights(NextTokenWindows):
    """NextTokenWindows that multiplies the weights of example i by a number.

    Attributes:
      factors: example i has number i modulo their count; "nan" is NaN.
      nan: the number of an example whose weights are NaN; -1 is none.
    """

    factors: tuple[str, ...] = ("1",)
    nan: int = -1

    def open(self) -> Source:
        return OddSource(super().open(), [float(factor) for factor in self.factors], self.nan)


class OddSource:
    """The examples of a source with other weights."""

    def __init__(self, source: Source, factors: list[float], nan: int):
        self.source, self.factors, self.nan = source, factors, nan
        self.fingerprint = source.fingerprint

    def __len__(self) -> int:
        return len(self.source)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        example = self.source.example(index, epoch, rng)
        factor = np.float32(np.nan if index == self.nan else self.factors[index % len(self.factors)])
        return example | {"weights": example["weights"] * factor}
