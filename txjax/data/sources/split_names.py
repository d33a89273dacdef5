"""The splits that the names of files and folders say."""

import re

SPLITS = ("train", "validation", "test")
ALIASES = {"valid": "validation", "val": "validation", "dev": "validation"}


def split_in_name(text: str) -> str | None:
    """The split that a part of a file's name says, such as `instances_train2017.json`."""
    words = (word.rstrip("0123456789") for word in re.split(r"[._-]", text))
    return next((split for word in words if (split := split_name(word))), None)


def split_name(text: str) -> str | None:
    """The split with whose name a file's or folder's name begins, such as `train-00000-of-00002.parquet`."""
    stem = re.split(r"[._-]", text)[0].lower()
    name = ALIASES.get(stem, stem)
    return name if name in SPLITS else None
