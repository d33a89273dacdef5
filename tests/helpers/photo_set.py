"""A tiny TFDS set for tests: image files as given, with a class and objects that have positions."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tensorflow_datasets import features

from helpers.data_sets import write_records

CLASSES = 3


def pixels(number: int) -> np.ndarray:
    """uint8 [10 12 3]."""
    return np.random.default_rng(number).integers(256, size=(10, 12, 3), dtype=np.uint8)


def file(image: np.ndarray | Image.Image, kind: str = "png", **options: Any) -> bytes:
    """An image as a file, with Pillow's options for its kind."""
    buffer = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(buffer, format=kind, **options)
    return buffer.getvalue()


def objects(number: int) -> list[dict]:
    """Objects of record `number`: as many as the number, at the distances 1, 2, ... of the kinds 0, 1, 2, 0, ..."""
    return [{"type": i % 3, "location": [0.0, 9.0, i + 1.0]} for i in range(number)]


def prepare(
    folder: Path,
    train: Sequence[bytes],
    test: Sequence[bytes] = (),
    size: tuple[int | None, int | None] = (None, None),
) -> str:
    """Writes the set `made_photos` of these files below a folder; returns that as `data_dir`.

    Args:
      size: the rows and columns that the set declares for all of its images.
    """
    located = {"type": features.ClassLabel(num_classes=3), "location": features.Tensor(shape=(3,), dtype=np.float32)}
    layout = {
        "image": features.Image(shape=(*size, 3)),
        "label": features.ClassLabel(num_classes=CLASSES),
        "label_angle": features.ClassLabel(num_classes=40),
        "objects": features.Sequence(located),
    }
    return write_records(folder, "made_photos", layout, {"train": records(train), "test": records(test or train)})


def records(files: Sequence[bytes]) -> list[dict[str, Any]]:
    """Image files with a class, one of 40 angles, and objects."""
    return [
        {"image": io.BytesIO(file), "label": i % CLASSES, "label_angle": 5 * i % 40, "objects": objects(i)}
        for i, file in enumerate(files)
    ]
