"""What a run keeps of an imported folder besides its weights: tokenizer, template, settings of generation, class names.

They travel from run to run, so that an export has them however long ago the import was.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

KEPT = "huggingface"  # the subfolder of a workdir
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".ot")


def files_beside_weights(folder: Path) -> list[Path]:
    """All files of a folder but weights, indices of these and what is hidden, relative to it."""
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    return [path for path in shown if not path.name.endswith((".index.json", *WEIGHTS))]


def keep_files(folder: Path, workdir: Path) -> Path:
    """Copies them into a workdir, byte for byte. Returns where they are."""
    kept = workdir / KEPT
    kept.mkdir(exist_ok=True)
    for path in files_beside_weights(folder):
        (kept / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / path, kept / path)
    return kept


def inherit_files(workdir: Path, origins: Sequence[Path]) -> None:
    """Copies what the first of some runs keeps into the workdir of a run that starts from them, unless it has some."""
    for origin in origins:
        if (origin / KEPT).is_dir() and not (workdir / KEPT).exists():
            keep_files(origin / KEPT, workdir)
