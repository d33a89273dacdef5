"""Hugging Face folders as what a workdir has: for `import`, with and without an adapter."""

from pathlib import Path
from typing import Any

from txjax.errors import UserError
from txjax.io.kept_files import KEPT


def is_folder(path: Path) -> bool:
    """Whether it is a Hugging Face folder, and no workdir."""
    from txjax.tree import read_json

    file = path / "config.json"
    return file.is_file() and "model_type" in read_json(file)


def origin_family(path: Path) -> str | None:
    """The `model_type` of a Hugging Face folder, or of the one that a workdir was imported from."""
    from txjax.tree import read_json

    files = (path / "config.json", path / KEPT / "config.json")
    return next((read_json(file)["model_type"] for file in files if is_folder(file.parent)), None)


def keep(source: Path, folder: Path, workdir: Path, model: Any) -> tuple[Any, str]:
    """Copies a folder's files besides its weights into `folder`, which becomes `workdir`.

    Returns:
      An experiment with the model, or the model if there can be none; and what is missing then, in a line.
    """
    from txjax.interop.huggingface.start import experiment
    from txjax.io.kept_files import keep_files

    kept = keep_files(source, folder)
    try:
        return experiment(model, kept, workdir.resolve() / KEPT) or model, ""
    except UserError as error:  # the weights are still usable
        return model, f"\nnot for evaluate and generate: {error}"
