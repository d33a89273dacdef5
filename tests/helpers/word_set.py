"""A tiny TFDS set for tests: words with classes, and questions whose answers are spans of a text."""

from pathlib import Path

import numpy as np
from tensorflow_datasets import features

from helpers.data_sets import write_records

TEXT = "Ada Lövelace wrote notes on the engine of Babbage ."
WORDS = TEXT.split()
TAGS = [2, 1, 0, 0, 0, 0, 0, 0, 2, -1]


def records(count: int) -> list[dict]:
    """Texts that begin at the word i, with the answer "Babbage"; each third question has no answer."""
    found = []
    for i in range(count):
        words, tags = WORDS[i % 9 :], TAGS[i % 9 :]
        text = " ".join(words)
        answers = [] if i % 3 == 2 else [{"text": "Babbage", "answer_start": text.index("Babbage")}]
        found.append({"words": words, "tags": tags, "question": "Who?", "context": text, "answers": answers})
        found[-1]["right"] = i % 3
    return found


def prepare(folder: Path) -> str:
    """Writes the set `made_words` (train 12, test 4) below a folder; returns that as `data_dir`."""
    text, tag = features.Text(), features.ClassLabel(num_classes=3)
    layout = {
        "words": features.Sequence(text),
        "tags": features.Sequence(tag),
        "question": text,
        "context": text,
        "right": tag,
        "answers": features.Sequence({"text": text, "answer_start": np.int32}),
    }
    return write_records(folder, "made_words", layout, {"train": records(12), "test": records(4)})
