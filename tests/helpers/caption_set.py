"""A tiny TFDS set for tests: pictures with a class and any number of captions."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tensorflow_datasets import features

from helpers import photo_set
from helpers.data_sets import write_records

KINDS = ("dog", "cat")
SHAPE = (10, 12, 3)
CAPTIONS = (
    ["a red dog", "one dog"],
    ["a cat"],
    [],
    ["", "a dog with a very long tail"],
    ["one cat", "a cat", " "],
)


def prepare(folder: Path, captions: Sequence[Sequence[str]] = CAPTIONS, files: Sequence[bytes] | None = None) -> str:
    """Writes the set `made_captions` below a folder; returns that as `data_dir`.

    Args:
      captions: of each record of `train`; `test` has the first two records.
      files: their images. If None, those of `photo_set.pixels`.
    """
    images = files or [photo_set.file(photo_set.pixels(number)) for number in range(len(captions))]
    text = features.Text()
    layout = {
        "image": features.Image(shape=SHAPE),
        "captions": features.Sequence({"text": text, "language": text}),
        "words": features.Sequence(text),
        "caption": text,
        "label": features.ClassLabel(names=list(KINDS)),
    }
    records = [record(number, *pair) for number, pair in enumerate(zip(images, captions, strict=True))]
    return write_records(folder, "made_captions", layout, {"train": records, "test": records[:2]})


def record(number: int, image: bytes, captions: Sequence[str]) -> dict[str, Any]:
    """A record; `caption` is its first caption, or empty, `words` the words of that."""
    first = next(iter(captions), "")
    texts = [{"text": caption, "language": "en"} for caption in captions]
    label = KINDS[number % len(KINDS)]
    return {"image": io.BytesIO(image), "captions": texts, "words": first.split(), "caption": first, "label": label}
