"""Submits the points of a sweep as one Slurm job array, by the launcher of single runs."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import txjax
from txjax.errors import UserError
from txjax.sweep.job import SweepJob
from txjax.sweep.sweep_folder import SweepPoint

LAUNCHER = Path(txjax.__file__).parents[1] / "launch" / "slurm.py"


def submit(work: SweepJob, at_once: int | None, options: Sequence[str], dry_run: bool) -> int:
    """Submits the unfinished points, or prints the script. Returns the launcher's exit code.

    Args:
      at_once: maximum number of concurrent points. If None, Slurm decides.
      options: flags of launch/slurm.py: `--partition=gpu`, `--gpus_per_node=8`.

    Raises:
      UserError: launch/slurm.py is missing, or an earlier array of this sweep is still in Slurm's queue.
    """
    if not LAUNCHER.is_file():
        raise UserError("--executor", "slurm where txjax runs from a checkout (with launch/slurm.py)", str(LAUNCHER))
    if not dry_run and (job := _queued_job(work.folder.path)):
        hint = f"wait until it is over, or scancel {job}; then the same command submits what is left"
        raise UserError("--workdir", "a sweep without jobs in Slurm's queue", f"job {job}", hint=hint)
    left = work.unfinished_points()
    if not left:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder) / "points.txt"  # the launcher copies its lines
        lines.write_text("".join(line(work, point) + "\n" for point in left), encoding="utf-8")
        words = [f"--config={work.config}", f"--workdir={work.folder.path}", f"--sweep={lines}", *options]
        words += [f"--at_once={at_once}"] * (at_once is not None) + ["--dry_run"] * dry_run
        return subprocess.run([sys.executable, str(LAUNCHER), *words, *work.overrides]).returncode


def line(work: SweepJob, point: SweepPoint) -> str:
    """The flags of one point as a line of the launcher's file."""
    return shlex.join(work.flags([point]))


def _queued_job(folder: Path) -> str:
    """The job id of an earlier array that is still pending or running. "" if there is none."""
    squeue = shutil.which("squeue")
    for note in sorted(folder.glob("launch/*/launch.json")) if squeue else []:
        job = json.loads(note.read_text(encoding="utf-8")).get("job", "")
        done = subprocess.run([str(squeue), "--noheader", f"--jobs={job}"], capture_output=True, encoding="utf-8")
        if job and done.stdout.strip():
            return str(job)
    return ""
