"""A tiny TFDS set for tests: image files as given, with a class and objects that have positions."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = 3


def pixels(number: int) -> np.ndarray:
    """uint8 [10 12 3]."""
    return np.random.default_rng(number).integers(256, size=(10, 12, 3), dtype=np.uint8)


def file(image: np.ndarray | Image.Image, kind: str = "png") -> bytes:
    """An image as a file."""
    buffer = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(buffer, format=kind)
    return buffer.getvalue()


def objects(number: int) -> list[dict]:
    """Objects of record `number`: as many as the number, at the distances 1, 2, ... of the kinds 0, 1, 2, 0, ..."""
    return [{"type": i % 3, "location": [0.0, 9.0, i + 1.0]} for i in range(number)]


def prepare(folder: Path, train: Sequence[bytes], test: Sequence[bytes] = ()) -> str:
    """Writes the set `made_photos` of these files below a folder; returns that as `data_dir`."""
    from made_photos.made_photos_dataset_builder import Builder

    builder = Builder(data_dir=folder)
    builder.files = {"train": train, "test": test or train}
    builder.download_and_prepare(file_format="array_record")
    return str(folder)
