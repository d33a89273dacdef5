"""Augmented images.

A folder of images, with the augmentations of a recipe for ViTs.
"""

from pathlib import Path

import numpy as np
from PIL import Image

from txjax.data import (
    CenterCrop,
    CutMix,
    Flip,
    ImageFolder,
    Images,
    RandAugment,
    RandomErasing,
    RandomResizedCrop,
    Resize,
)

rng = np.random.default_rng(0)
for split in ("train", "validation"):
    for number in range(8):
        path = Path("photos", split, ("cat", "dog")[number % 2], f"{number}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(256, size=(40, 60, 3), dtype=np.uint8)).save(path)

photos = dict(source=ImageFolder("photos"), shape=(32, 32, 3))
augmentations = (RandomResizedCrop(32), Flip(), RandAugment(layers=2, magnitude=9), RandomErasing(probability=0.25))
train = Images(**photos, transforms=augmentations, mix=CutMix(alpha=1.0))
validation = Images(**photos, split="validation", transforms=(Resize(36), CenterCrop(32)))
for data in (train, validation):
    example = data.open().example(0, epoch=1, rng=rng)
    print(data.class_names(), example["image"].shape, sorted(example))
# ('cat', 'dog') (32, 32, 3) ['image', 'label', 'mix', 'other_label', 'weights']
# ('cat', 'dog') (32, 32, 3) ['image', 'label', 'weights']
