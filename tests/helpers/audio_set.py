"""Audio files and folders of them, each with sounds that a test can tell apart."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import soundfile

WORDS = ("one", "two", "three", "four", "five", "six")


def level(number: int, samples: int) -> np.ndarray:
    """A signal float32 [T] of the height (number + 1) / 16."""
    return np.full(samples, (number + 1) / 16, np.float32)


def noise(samples: int, seed: int = 0, channels: int = 1) -> np.ndarray:
    """Noise of at most .5: multiples of 1/128, which all kinds of files have exactly; float32 [T] or [T C]."""
    values = np.random.default_rng(seed).integers(-64, 65, (samples, channels)).astype(np.float32) / 128
    return values[:, 0] if channels == 1 else values


def file(samples: np.ndarray, rate: int = 8000, kind: str = "WAV", subtype: str = "PCM_16") -> bytes:
    """An audio file."""
    content = io.BytesIO()
    soundfile.write(content, samples, rate, subtype, format=kind)
    return content.getvalue()


def write_folder(folder: Path, files: Mapping[str, bytes], rows: Mapping[str, Sequence[Mapping[str, object]]]) -> str:
    """Writes files, and the rows of each split as JSON Lines; returns the folder as `data_dir`."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    for split, lines in rows.items():
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(folder)


def write_levels(folder: Path, sizes: Sequence[int], rate: int = 8000) -> str:
    """A folder of levels 0, 1, ... of these sizes, with `WORDS` as their texts, and a split `train`, `test` of all."""
    files = {f"{number}.wav": file(level(number, size), rate) for number, size in enumerate(sizes)}
    rows = [{"audio": f"{n}.wav", "text": WORDS[n], "speaker": "ab"[n % 2]} for n in range(len(sizes))]
    return write_folder(folder, files, {"train": rows, "test": rows})
