"""A tiny folder for tests: LLaVA's JSON beside images."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def entry(*values: str, image: str | list[str] | None = None, **more: Any) -> dict[str, Any]:
    """An entry of a file: messages of the human and the model in turn, and the paths of its images."""
    speakers = ("human", "gpt")
    messages = [{"from": speakers[number % 2], "value": value} for number, value in enumerate(values)]
    return {**({} if image is None else {"image": image}), "conversations": messages, **more}


def pixels(seed: int, rows: int = 4, columns: int = 4) -> np.ndarray:
    """uint8 [rows columns 3]."""
    return np.random.default_rng(seed).integers(256, size=(rows, columns, 3), dtype=np.uint8)


def write(folder: Path, images: dict[str, np.ndarray], **splits: list[dict[str, Any]]) -> str:
    """Writes images as PNG by their paths, and a JSON file for each split; returns the folder as `data_dir`."""
    for name, image in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / name, format="png")
    for split, entries in splits.items():
        (folder / f"{split}.json").write_text(json.dumps(entries), encoding="utf-8")
    return str(folder)
