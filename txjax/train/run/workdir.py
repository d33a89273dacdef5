"""The folder of a run: one process at a time, one config for its whole life, and a note of what ran it."""

import contextlib
import datetime
import importlib.metadata
import json
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

import txjax
from txjax import cpu, tree
from txjax.checkpoint import Store
from txjax.checkpoint.run_folders import check_not_published, read_run_config
from txjax.checkpoint.run_folders import read_checkpoints as read_checkpoints
from txjax.data.file_changes import describe_changes, file_digests
from txjax.distributed import on_primary
from txjax.errors import UserError
from txjax.io.disk import dispensable
from txjax.io.files import replace_text
from txjax.train.run import environment
from txjax.train.run.lock import locked
from txjax.types import TrainState

log = logging.getLogger("txjax")
# What may change when a run resumes: it does not change what is computed (but for rounding).
HARMLESS = (
    "num_epochs",
    "log_every_steps",
    "layer_norms_every_steps",
    "data_workers",
    "checkpoint.",
    "evals",
    "trackers",
    "mesh.",
    "microbatches",
    "model.stack.",
    "stop",
    "step_timeout_seconds",
    "heartbeat_timeout_seconds",
)
CHANGED = "train from step "  # of data that change there: how their names begin in a manifest
PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "tensorflow-datasets", "numpy")


def valid_path(workdir: Path | str) -> Path:
    """The folder's path. Raises UserError where no file system could have one of that name."""
    if isinstance(workdir, str) and "://" in workdir:
        hint = "with `txjax.train.bucket.open_workdir('workdir', URL) as folder`, train in folder"
        raise UserError("--workdir", "a path", workdir, hint=hint)
    try:
        os.path.lexists(workdir) or os.stat(workdir)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        name = str(workdir)[:80]
        raise UserError(
            "--workdir", "a path that a folder can have", name, hint=str(error).partition(": ")[0]
        ) from None
    return Path(workdir)


@contextlib.contextmanager
def lock_workdir(workdir: Path) -> Iterator[Path]:
    """Keeps other runs out of a workdir until the block ends, however this process ends. Of several, process 0 does.

    Raises:
      UserError: another run is in it.
    """
    with contextlib.ExitStack() as stack:
        on_primary("the workdir", lambda: stack.enter_context(locked(Path(workdir).resolve())))
        yield Path(workdir).resolve()


def write_config(workdir: Path, experiment: Any) -> None:
    """Writes the resolved config."""
    replace_text(workdir / "config.json", json.dumps(tree.to_json(experiment), indent=2) + "\n")


def check_resume(
    workdir: Path, experiment: Any, abstract: TrainState, data: Mapping[str, str], allow_change: bool = False
) -> None:
    """Makes sure that a run may begin or resume in this workdir. Writes nothing.

    Args:
      abstract: shapes and dtypes of the state of the run.
      data: fingerprints of its data sets, by name.
      allow_change: whether the config may differ from the one that this workdir was started with.

    Raises:
      UserError: the config, the data or the arrays of the newest checkpoint are not those of this run.
    """
    if allow_change:
        check_not_published(workdir)
    else:
        check_config(workdir, experiment)
    check_data(workdir, data, lambda: file_digests(experiment))
    Store(workdir).check(abstract)


def check_config(workdir: Path, experiment: Any) -> None:
    """Makes sure that the config is the one that this workdir was started with, if it was. Writes nothing.

    A workdir without a checkpoint takes any config. A field that is newer than the workdir is no difference while it
    has its default.

    Raises:
      UserError: the configs differ in more than harmless fields; shows the difference.
    """
    path = workdir / "config.json"
    check_not_published(workdir)
    if not path.exists() or not has_steps(workdir):
        return
    damaged = "write this command's config in its place by --allow_config_change"
    if differences := config_differences(path, experiment, HARMLESS, damaged):
        raise UserError(
            "--config",
            f"the config that {workdir} was started with",
            ", ".join(differences[:8]),
            hint="take another --workdir, or resume with the new config by --allow_config_change",
        )


def config_differences(path: Path, experiment: Any, harmless: tuple[str, ...], hint: str = "") -> list[str]:
    """The fields in which a config.json differs from an experiment, as `seed: 0 -> 1`.

    Args:
      harmless: how the paths begin that may differ.
      hint: for a damaged file.
    """
    old = tree.fill_defaults(tree.read_json(path, hint), experiment)
    changes = tree.diff(old, tree.to_json(experiment))
    return [f"{name}: {_show(old)} -> {_show(now)}" for name, old, now in changes if not name.startswith(harmless)]


def has_steps(workdir: Path) -> bool:
    """Whether a step was ever saved in a workdir, be it damaged by now."""
    store = Store(workdir)
    return bool(store.steps()) or any(store.folder.glob("*.bad"))


def _show(value: Any) -> str:
    return "(none)" if value is ... else json.dumps(value)


def read_config(workdir: Path, trusted: tuple[str, ...] = ()) -> Any:
    """The experiment of a workdir, from its config.json alone.

    Raises:
      UserError: there is none.
    """
    return tree.from_json(read_run_config(workdir), trusted)


def write_manifest(
    workdir: Path,
    data: Mapping[str, str],
    facts: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    origins: Sequence[Mapping[str, Any]] | None = None,
    files: Mapping[str, str] | None = None,
) -> None:
    """Notes what runs here: code, versions, devices, environment, data, and `facts` of what it computes.

    A run that resumes from a checkpoint keeps its first date, its data and its origins.

    Args:
      options: of the compiler, for the step.
      origins: the steps of other runs whose parameters it starts from.
      files: of its data, `file_digests`. If None, none are known.

    Raises:
      UserError: the data are not those that the run began with.
    """
    path = workdir / "manifest.json"
    before = check_data(workdir, data, lambda: files or {})
    devices = jax.devices()
    here = {"platform": devices[0].platform, "kind": devices[0].device_kind, "count": len(devices)}
    here["cores"] = cpu.cores()
    _compare_cores(before.get("devices"), here)
    manifest = {
        "created": before.get("created", datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")),
        "command": tree.hide_secrets(sys.argv),
        "git": _git(),
        "python": platform.python_version(),
        "versions": {"txjax": txjax.__version__} | {name: importlib.metadata.version(name) for name in PACKAGES},
        "devices": here,
        "processes": jax.process_count(),
        "environment": environment.noted(),
        "compiler_options": dict(options or {}),
        "data": before.get("data", {}) | data,
        "files": before.get("files", {}) if files is None else dict(files),
        "init_from": before.get("init_from", []) if origins is None else list(origins),
        **facts,
    }
    with dispensable(path):
        replace_text(path, json.dumps(manifest, indent=2) + "\n")


def _compare_cores(before: Any, here: Mapping[str, Any]) -> None:
    """Warns where a run on a CPU resumes with another number of cores. Both are `devices` of a manifest."""
    if isinstance(before, dict) and before.get("platform") == here["platform"] == "cpu":
        known = before.get("cores", here["cores"])  # an older release noted none
        if known != here["cores"]:
            reason = "XLA splits sums by cores, so numbers may differ in their last bits"
            log.warning("the run had %s CPU cores and has %s now: %s", known, here["cores"], reason)


def check_data(workdir: Path, data: Mapping[str, str], files: Callable[[], Mapping[str, str]] = dict) -> dict[str, Any]:
    """Makes sure that the data are the same as in the run that this workdir has steps of.

    Args:
      files: returns the data's `file_digests`, for the message.

    Returns:
      The run's manifest; {} if there are no steps.

    Raises:
      UserError: its data are not these.
    """
    path = workdir / "manifest.json"
    anew = "remove it: it is written at every start, and has the date and the data of the first"
    before = tree.read_json(path, anew) if path.exists() and has_steps(workdir) else {}
    known = before.get("data", {})
    if not isinstance(known, dict):
        raise UserError(f"{path}: data", "a JSON object", known, hint=anew)
    for name, fingerprint in known.items():
        if data.get(name, fingerprint) != fingerprint:
            noted = before.get("files")
            changes = describe_changes(noted, files()) if isinstance(noted, dict) and noted else ""
            raise UserError(
                f"the data of {name}",
                f"fingerprint {fingerprint} (as when {workdir} began)",
                data[name],
                hint=f"{changes}; take another --workdir" if changes else "take another --workdir",
            )
    return before


def _git() -> dict[str, Any] | None:
    """The commit of txjax's own code, if it runs from a checkout or from a launcher's copy of one."""
    copied = Path(txjax.__file__).with_name("commit.json")
    if copied.exists():
        return json.loads(copied.read_text(encoding="utf-8"))

    def ask(*words: str) -> str:
        folder = str(Path(txjax.__file__).parent)
        return subprocess.run(
            ["git", "-C", folder, *words], capture_output=True, encoding="utf-8", check=True, timeout=10
        ).stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
