"""A data set of your own.

Sequences to copy.
"""

import dataclasses

import numpy as np

from txjax.data import Dataset
from txjax.types import config_field, spec


@dataclasses.dataclass
class Copying(Dataset):
    """A random sequence, and the same once more: what a model of next tokens has to copy."""

    half: int = config_field(8, at_least=1)
    count: int = config_field(1000, at_least=1)

    def spec(self):
        shape = (2 * self.half - 1,)
        tokens = {name: spec(shape, "int32") for name in ("tokens", "targets")}
        return {"id": spec((), "int32"), "weights": spec(shape, "float32")} | tokens

    def vocab(self):
        return 10

    def check(self):
        pass

    def open(self):
        return CopyingSource(self)


class CopyingSource:
    """Its examples by number; the fingerprint identifies the data."""

    def __init__(self, data):
        self.data, self.fingerprint = data, f"copying-{data.half}-{data.count}"

    def __len__(self):
        return self.data.count

    def example(self, index, epoch, rng):
        text = np.tile(np.random.default_rng(index).integers(10, size=self.data.half, dtype=np.int32), 2)
        weights = (np.arange(len(text) - 1) >= self.data.half - 1).astype(np.float32)
        return {"tokens": text[:-1], "targets": text[1:], "weights": weights}


example = Copying(half=4).open().example(0, epoch=0, rng=np.random.default_rng(0))
print(example["tokens"], example["targets"], example["weights"])
# [8 6 5 2 8 6 5] [6 5 2 8 6 5 2] [0. 0. 0. 1. 1. 1. 1.]
