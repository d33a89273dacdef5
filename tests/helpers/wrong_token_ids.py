"""A data set with one token id outside the vocabulary."""

import dataclasses

from txjax.data import NextTokenWindows, Source

WRONG = 5  # the example


@dataclasses.dataclass
class WrongIds(NextTokenWindows):
    """NextTokenWindows in which the third number in `key` of one example is replaced."""

    key: str = "tokens"
    number: int = 256
    weight: float = 1.0

    def open(self) -> Source:
        return WrongSource(self, super().open())


class WrongSource:
    def __init__(self, settings, source):
        self.settings = settings
        self.source = source
        self.fingerprint = source.fingerprint

    def __len__(self):
        return 24

    def example(self, index, epoch, rng):
        example = self.source.example(index, epoch, rng)
        if index == WRONG:
            example[self.settings.key] = example[self.settings.key].copy()
            example[self.settings.key][2] = self.settings.number
            example["weights"][2] = self.settings.weight
        return example
