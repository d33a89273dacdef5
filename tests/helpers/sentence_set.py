"""A tiny TFDS set of labelled sentences."""

from pathlib import Path

import numpy as np
from tensorflow_datasets import features

from helpers.data_sets import write_records

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "tree",
    "house",
    "über",
    "red",
    "green",
    "sees",
    "runs",
    "under",
    "over",
    "and",
    "not",
]


def records(count: int) -> list[dict]:
    """Sentences of 0 to 19 words; every seventh has no label, every fifth no second sentence, number 3 no first."""
    found = []
    for i in range(count):
        words = [WORDS[(i * k + k * k) % len(WORDS)] for k in range(1, 40)]
        first, second = " ".join(words[: i * 7 % 20]), " ".join(words[20 : 20 + i * 11 % 20])
        unlabelled = i % 7 == 6
        found.append(
            {
                "first": "" if i == 3 else first,
                "second": "" if i % 5 == 0 else second,
                "label": -1 if unlabelled else i % 3,
                "score": -1.0 if unlabelled else i / 4,
            }
        )
    return found


def prepare(folder: Path) -> str:
    """Writes the set `made_sentences` (train 60, test 10) below a folder; returns that as `data_dir`."""
    label = features.ClassLabel(num_classes=3)
    layout = {"first": features.Text(), "second": features.Text(), "label": label, "score": np.float32}
    return write_records(folder, "made_sentences", layout, {"train": records(60), "test": records(10)})
