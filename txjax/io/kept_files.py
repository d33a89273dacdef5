"""What a run keeps of an imported folder besides its weights: tokenizer, template, settings of generation, class names.

They travel from run to run, so that an export has them however long ago the import was.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from txjax.errors import UserError

MOST = 256 << 20  # bytes of a file
KEPT = "huggingface"  # the subfolder of a workdir
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".msgpack", ".gguf", ".onnx", ".ot")


def files_beside_weights(folder: Path) -> list[Path]:
    """All files of a folder but weights, indices of these and what is hidden, relative to it.

    A link must stay inside the folder, or lead to the blobs of the hub's cache that the folder is a snapshot of.

    Raises:
      UserError: a link that leads elsewhere or nowhere, something that is neither a file nor a folder, or a file of
        more than `MOST` bytes.
    """
    top = folder.resolve()
    inside = (top, top.parents[1] / "blobs") if top.parent.name == "snapshots" else (top,)
    files = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts) or name.name.endswith((".index.json", *WEIGHTS)):
            continue
        target = path.resolve()
        if not any(target.is_relative_to(root) for root in inside):
            raise UserError(str(folder), "links that stay inside the folder", f"{name}, which leads to {target}")
        if path.is_dir() and not path.is_symlink():
            continue
        if not path.is_file():
            raise UserError(str(folder), "files and folders alone", f"{name}, which is neither")
        if path.stat().st_size > MOST:
            raise UserError(str(folder), f"files of at most {MOST >> 20} MiB beside the weights", str(name))
        files.append(name)
    return files


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
