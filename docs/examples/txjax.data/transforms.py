"""Transforms, and one of your own."""

import dataclasses

import numpy as np

from txjax.data import PadCrop, RandomCrop, Transform
from txjax.types import config_field


@dataclasses.dataclass
class Dropout(Transform):
    """Black pixels, each with probability `rate`."""

    rate: float = config_field(0.1, at_least=0, at_most=1)

    def __call__(self, image, rng):
        return image * (rng.random(image.shape[:2]) >= self.rate)[..., None].astype(image.dtype)


image = np.full([32, 32, 3], 255, np.uint8)
for transform in (PadCrop(pad=4), RandomCrop(smallest=16, largest=24), Dropout(rate=0.5)):
    changed = transform(image, np.random.default_rng(0))
    print(type(transform).__name__, changed.shape, f"{(changed == 0).mean():.2f}")
# PadCrop (32, 32, 3) 0.12
# RandomCrop (23, 21, 3) 0.00
# Dropout (32, 32, 3) 0.48
