"""Which folder is a run's: the error for another one says what it is, and what to give instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from txjax import tree
from txjax.checkpoint.steps import Checkpoints
from txjax.errors import UserError


def read_run_config(workdir: Path) -> dict[str, Any]:
    """The config.json of a workdir, as JSON. Raises UserError for a folder that is no run's."""
    path = Path(workdir) / "config.json"
    if not path.is_file():
        raise UserError("--workdir", "the folder of a run (with a config.json)", str(workdir), hint=_instead(workdir))
    values = tree.read_json(path)
    if is_published(values):
        raise _published(workdir, "the folder of a run")
    if not {"class", "model"} & set(values):
        raise UserError(str(path), "the config of a run, with its class", ", ".join(list(values)[:5]) or "no values")
    return values


def read_checkpoints(workdir: Path) -> Checkpoints:
    """What the config says of checkpoints, the best one among them; the default where it says nothing (an import).

    Raises:
      UserError: there is no config.json.
    """
    checkpoints = tree.from_json(read_run_config(workdir).get("checkpoint")) or Checkpoints()
    if not isinstance(checkpoints, Checkpoints):
        raise UserError(f"{workdir}/config.json", "Checkpoints as its field checkpoint", checkpoints)
    return checkpoints


def check_not_published(workdir: Path) -> None:
    """Raises UserError for a folder of Hugging Face, whose config.json a run would replace by its own."""
    path = Path(workdir) / "config.json"
    try:
        values = tree.read_json(path) if path.is_file() else {}
    except UserError:  # damaged; the run that it belongs to has its own message
        return
    if is_published(values):
        raise _published(workdir, "a new folder, or the folder of a run")


def is_published(values: dict[str, Any]) -> bool:
    """Whether a config.json is one of Hugging Face's."""
    return "model_type" in values and "class" not in values


def _published(workdir: Path, expected: str) -> UserError:
    hint = f"`txjax import --from={workdir} --workdir=RUN` makes a run of it"
    return UserError("--workdir", expected, f"a Hugging Face folder, {workdir}", hint=hint)


def _instead(workdir: Path) -> str:
    """What a path without a config.json is."""
    if not workdir.exists():
        is_url = workdir.parts and workdir.parts[0].endswith(":")
        return "`txjax fetch` copies a run from a bucket" if is_url else "there is no such folder"
    if not workdir.is_dir():
        return "it is a file"
    if (workdir / "sweep.json").is_file():
        return "it is a sweep: give the folder of one of its points"
    run = next((folder for folder in workdir.parents[:2] if (folder / "config.json").is_file()), None)
    return "" if run is None else f"it is inside a run: give {run}"
