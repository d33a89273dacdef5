"""Saving and restoring a training state, digests and flush included."""

from typing import Any

import checkpoints
from results import Book

from parts.steps import load

TITLE = "Checkpoints of a whole training state: saved with digests and flushed, restored with every digest checked"


def run(book: Book, tiny: bool) -> None:
    for name in ("gpt2-124M", "gpt2-350M")[: 1 if tiny else 2]:
        experiment = load(name, {}, tiny)
        book.case(name, lambda experiment=experiment: checkpoints.measure(experiment, rounds=1 if tiny else 3))


def table(book: Book) -> tuple[list[str], list[list[Any]]]:
    columns = ["state of", "GB", "saved, GB/s", "the loop waits, s", "restored, GB/s"]
    rows = []
    for name, record in book.done.items():
        if found := record.get("result"):
            size = found["bytes"] / 1e9
            rates = [f"{size / found[kind]:.3g}" for kind in ("save", "restore")]
            rows.append([name, f"{size:.3g}", rates[0], f"{found['wait']:.2f}", rates[1]])
    return columns, rows
