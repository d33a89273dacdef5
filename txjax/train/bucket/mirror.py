"""A run's folder and its workdir in a bucket: made equal when the run begins; then each saved step is uploaded."""

import contextlib
import dataclasses
import logging
import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from txjax import distributed
from txjax.checkpoint.steps import FOLDER, Steps, is_step
from txjax.errors import RunError, join_names
from txjax.io import digest
from txjax.train.bucket.commits import Files
from txjax.train.bucket.lease import End, Lease
from txjax.train.bucket.transfer import download, files_of, remove_others, upload

POLL_SECONDS = 0.5
TRIES = 20  # to link files while the run removes some
log = logging.getLogger("txjax")


class Mirror:
    """Commits a run's folder to its bucket, in a thread, whenever a step is complete in it."""

    def __init__(self, lease: Lease, folder: Path, snapshots: Path, end: End = distributed.exit_process):
        """Makes the folder equal to the newest entry.

        Args:
          snapshots: a folder of the same disk, for links to the files that are being uploaded.
          end: called in a thread if steps can't be uploaded.
        """
        self.lease = lease
        self.folder = folder
        self.snapshots = snapshots
        self._end_run = end
        self._absent = fetch(lease, folder)
        self._status = {name: _status(path) for name, path in files_of(folder).items()}
        self._newest = newest_step(folder)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.lease.remove_leftovers()
            while not self._ending.wait(POLL_SECONDS):
                newest = newest_step(self.folder)
                if newest != self._newest:
                    self.commit()
                    self._newest = newest
        except Exception as error:
            message = f"{distributed.error_message(error)}; {self._safe()}"
            log.error(message)
            self._end_run(distributed.exit_code(error), message)

    def commit(self) -> None:
        """Uploads the files that the newest entry does not have, and creates the next entry, if any file differs."""
        paths = snapshot(self.folder, self.snapshots)
        before = self.lease.entry
        entry = before.after()
        status = {name: _status(path) for name, path in paths.items()}
        same = {name for name in paths if self._status.get(name) == status[name] and name in before.files}
        files = upload(self.lease.bucket, entry.number, {n: paths[n] for n in paths if n not in same}, before.files)
        self._absent = {name for name in self._absent if f"{step_folder(name)}/{digest.NAME}" in paths}
        files |= {name: before.files[name] for name in same | self._absent}
        if files != before.files:
            self.lease.commit(dataclasses.replace(entry, files=files))
        self._status = status
        shutil.rmtree(self.snapshots)

    def close(self) -> None:
        """Commits what is left, and leaves the workdir to other runs."""
        self._ending.set()
        self._thread.join()
        self.commit()
        self.lease.stop()
        self.lease.end()

    def _safe(self) -> str:
        steps = steps_of(self.lease.entry.files)
        return f"step {steps[0]} is safe there" if steps else "no step is there yet"


def fetch(lease: Lease, folder: Path) -> set[str]:
    """Makes a folder equal to the newest entry, but for the arrays of steps that are older than the newest good one.

    Returns:
      The files that were left in the bucket.
    """
    files = lease.entry.files
    steps = steps_of(files)
    arrays = {step: [name for name in files if name.startswith(f"{FOLDER}/{step}/arrays/")] for step in steps}
    absent = {name for names in arrays.values() for name in names}
    damaged = download(lease.bucket, {name: files[name] for name in files if name not in absent}, folder)
    remove_others(folder, files)
    for step in steps:
        absent.difference_update(arrays[step])
        damaged += download(lease.bucket, {name: files[name] for name in arrays[step]}, folder)
        if not digest.faults(folder / FOLDER / str(step)):  # which also finds what was damaged before it was uploaded
            break
    if damaged:
        log.warning("damaged in %s: %s", lease.bucket.url, join_names(damaged))
    remove_others(folder, {name: files[name] for name in files if name not in absent})
    return absent


def snapshot(folder: Path, to: Path) -> dict[str, Path]:
    """Links to the files of a run's folder, but not to steps that are incomplete.

    A run that removes files, adds some, or grows them, meanwhile changes none of the linked ones up to their length.
    The digests of a step are linked first, and are still the same at the end: so all files that they name are linked.
    """
    for _ in range(TRIES):
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        try:
            digests = [path.relative_to(folder).as_posix() for path in folder.glob(f"{FOLDER}/*/{digest.NAME}")]
            _link(folder, digests, to)
            whole = {"", *map(step_folder, digests)}
            complete = [name for name in files_of(folder) if step_folder(name) in whole]
            _link(folder, [name for name in complete if name not in digests], to)
            if all(os.path.samefile(folder / name, to / name) for name in digests):
                return {name: to / name for name in complete}
        except FileNotFoundError:
            continue
    raise RunError(f"{folder}: its files change faster than they can be listed")


def _link(folder: Path, names: Iterable[str], to: Path) -> None:
    """Links files of a folder in another one."""
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(folder / name, to / name)


def newest_step(folder: Path) -> tuple[int, int] | None:
    """The newest complete step of a run's folder, and when its record was last completed."""
    steps = Steps(folder)
    with contextlib.suppress(FileNotFoundError, IndexError):
        step = steps.steps()[-1]
        return step, (steps.path(step) / digest.NAME).stat().st_mtime_ns
    return None


def _status(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def step_folder(name: str) -> str:
    """The folder of the step that a file belongs to, `checkpoints/100`; "" for any other file."""
    parts = name.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 and parts[0] == FOLDER and is_step(parts[1]) else ""


def steps_of(files: Files) -> list[int]:
    """The complete steps among the files of an entry, the newest first."""
    names = (step_folder(name) for name in files if name.endswith(f"/{digest.NAME}"))
    return sorted((int(name.rpartition("/")[2]) for name in names if name), reverse=True)
