"""Saving and restoring the steps of a workdir: Orbax writes the arrays, digests verify them.

A step is the folder `checkpoints/STEP/`:

    arrays/        Orbax: `weights` (parameters, their EMA, model state) and `training` (moments, counters)
    record.json    the data position, the metrics at this step, shapes and dtypes
    digests.json   a digest of every file, written last: a step without it was never finished
    added.json     values that the record got later: the scores of evaluations that came after the save
"""

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax

from txjax import distributed
from txjax.checkpoint import origins
from txjax.checkpoint.arrays import check_arrays, write_arrays
from txjax.checkpoint.background import Background
from txjax.checkpoint.steps import Checkpoints, Steps, is_made
from txjax.distributed import on_primary
from txjax.errors import RunError, UserError
from txjax.io import digest, disk
from txjax.io.files import replace_text
from txjax.types import PyTree, TrainState, flat_paths

T = TypeVar("T")
SAVE_SECONDS = 3600.0  # that the other processes wait for process 0 to write all digests


def split(state: TrainState) -> dict[str, PyTree]:
    """The state as the two stored parts: `weights`, for inference too, and `training`, only for training."""
    weights = {"params": state.params, "frozen": state.frozen, "model_state": state.model_state}
    return {
        "weights": weights | ({"ema": state.ema} if state.ema else {}),
        "training": {"step": state.step, "opt_state": state.opt_state, "skipped": state.skipped},
    }


def join(parts: dict[str, PyTree]) -> TrainState:
    """The inverse of `split`."""
    return TrainState(**parts["weights"], **parts["training"])


class Store(Steps):
    """Saves and restores checkpoints. One save runs at a time, in the background; the next one waits for it."""

    def __init__(self, workdir: Path, options: Checkpoints | None = None):
        super().__init__(workdir, options)
        self.origins: list[origins.Origin] = []  # where frozen parameters lie unchanged; known once a step is loaded
        self._background = Background()
        self._everywhere = True  # whether all runs that train together have the newest step

    # Saving

    def save(self, step: int, state: TrainState, record: dict[str, Any], meet: threading.Barrier | None = None) -> None:
        """Starts saving a step; returns once the arrays are copied from the devices.

        Args:
          record: JSON values to save with the arrays: `data` (the data position), `metrics`, and `row`, if `add` is to
            complete it: older steps are removed then.
          meet: barrier of runs that train together: no older step is removed before all have saved this one.

        Raises:
          UserError: the disk is full, now or since the last save was started.
          RunError: the disk can't be written, or reads back other bytes than were written.
        """
        self.save_parts(step, split(state), record, meet)

    def save_parts(
        self, step: int, parts: dict[str, PyTree], record: dict[str, Any], meet: threading.Barrier | None = None
    ) -> None:
        """Saves some of the parts of a state; `init_from` needs only `weights`."""
        self.wait()
        arrays = {path: [list(x.shape), str(x.dtype)] for path, x in flat_paths(parts).items()}
        record = {"step": step, **record, "arrays": arrays}
        if self.options.frozen == "origin":
            parts, elsewhere = origins.leave_out(parts, self.origins, self.folder.parent)
            record |= elsewhere
        on_primary(f"the save of step {step}", lambda: self._make_room(step, parts))
        with jax.transfer_guard("allow"):  # Orbax copies arrays from devices, and synchronizes its processes by copies
            folder = self.path(step) / "arrays"
            response = self._write_arrays(step, lambda: write_arrays(folder, parts))

        def finish() -> None:
            try:
                self._write_arrays(step, response.result)
                distributed.barrier(f"the arrays of step {step}", SAVE_SECONDS)
                if distributed.is_primary():
                    self._write_or_remove(step, lambda: self._commit(step, record))
                    self._everywhere = _all_saved(meet)
                    if self._everywhere and not record.get("row"):
                        self._write_or_remove(step, lambda: self.forget_old(step))
                distributed.barrier(f"the end of the save of step {step}", SAVE_SECONDS)
            except BaseException:
                if meet is not None:
                    meet.abort()
                raise

        self._background.start(f"save {step}", finish)

    def add(self, step: int, facts: dict[str, Any]) -> None:
        """Starts to add values to the record of a step, in the place of older ones, and then removes older steps."""

        def finish() -> None:
            self._write_or_remove(
                step, lambda: self._verify(step, digest.add(self.path(step), json.dumps(facts, indent=1)))
            )
            if self._everywhere:
                self._write_or_remove(step, lambda: self.forget_old(step))

        if distributed.is_primary():
            self._background.start(f"completing step {step}", finish)

    def _commit(self, step: int, record: dict[str, Any]) -> None:
        replace_text(self.path(step) / "record.json", json.dumps(record, indent=1))
        digest.commit(self.path(step))
        self._verify(step, digest.read_back(self.path(step)))

    def _verify(self, step: int, faults: list[str]) -> None:
        if faults:
            self.set_aside(step, faults)
            raise RunError(f"step {step} read back from the disk differs from what was written; {self._safe()}")

    def _write_arrays(self, step: int, act: Callable[[], T]) -> T:
        """Calls Orbax, any of whose errors is one of the save: an outage at a read inside it is a TypeError, say."""

        def call() -> T:
            try:
                return act()
            except (OSError, ValueError):  # whose messages tell disks apart
                raise
            except Exception as error:
                message = f"{type(error).__name__}: {disk.first_line(error)}"
                raise RunError(f"step {step} could not be saved: {message[:300]}; {self._safe()}") from error

        return self._write_or_remove(step, call)

    def _write_or_remove(self, step: int, act: Callable[[], T]) -> T:
        try:
            with disk.writing(self.folder, f"step {step}", self._safe):
                return act()
        except Exception:
            # Other processes may still be writing.
            if not (distributed.is_multiprocess() or digest.is_complete(self.path(step))):
                shutil.rmtree(self.path(step), ignore_errors=True)
            raise

    def _safe(self) -> str:
        kept = self.steps()
        return f"step {kept[-1]} is safe" if kept else "no step was saved yet"

    def _make_room(self, step: int, parts: PyTree) -> None:
        with disk.writing(self.folder, f"step {step}", self._safe):
            self.folder.mkdir(parents=True, exist_ok=True)
            disk.check_room(self.folder, sum(x.nbytes for x in jax.tree.leaves(parts)), f"step {step}", self._safe)
            if is_made(self.path(step)):
                shutil.rmtree(self.path(step))
            if os.path.lexists(self.path(step)):
                hint = f"txjax did not create what is there: move it elsewhere; {self._safe()}"
                raise UserError(str(self.path(step)), f"a free path for step {step}", hint=hint)
            self.path(step).mkdir(parents=True)

    def wait(self) -> None:
        """Waits until the running save is finished. Raises its error, if any."""
        self._background.wait()

    def poll(self) -> None:
        """Raises the error of a save that has ended; never waits."""
        self._background.poll()

    # Restoring

    def check(self, abstract: TrainState) -> None:
        """Compares the record of the newest readable step with a state, before anything is restored or changed.

        Raises:
          UserError: the arrays don't match this model.
        """
        for step in reversed(self.steps()):
            with contextlib.suppress(RunError):  # damaged, or unreadable for now: `restore` says what is used instead
                arrays = self.record(step)["arrays"]
                break
        else:
            return
        self.check_training(step, arrays)
        check_arrays(self.folder.parent, step, arrays, split(abstract), all_of_them=True)

    def restore(self, abstract: TrainState) -> tuple[TrainState, dict[str, Any]] | None:
        """Restores the newest step whose digests all match, sharded as `abstract`; None if nothing was ever saved.

        Removes what a killed save left. Renames a damaged step to `STEP.bad`, with a warning, and tries the one before.

        Raises:
          UserError: all steps are damaged, or the arrays don't match this model.
        """
        step = on_primary("the step to resume from", self.newest_good)
        if step is None:
            return None
        return join(self.load(step, split(abstract))), self.record(step)

    def load(self, step: int, abstract: dict[str, PyTree]) -> dict[str, PyTree]:
        """Restores whole parts of one step, sharded as `abstract` (on any mesh). The caller verifies the digests.

        Raises:
          UserError: an array is missing or unexpected, or has another shape or dtype; none is dropped or cast.
        """
        check_arrays(self.folder.parent, step, self.record(step)["arrays"], abstract, all_of_them=True)
        return self.load_some(step, abstract)

    def load_some(self, step: int, abstract: dict[str, PyTree]) -> dict[str, PyTree]:
        """Restores those arrays of one step that are in `abstract`, sharded as there; reads no others.

        Raises:
          UserError: an array is missing, or has another shape or dtype.
        """
        record = self.record(step)
        check_arrays(self.folder.parent, step, record["arrays"], abstract, all_of_them=False)
        self.origins = origins.origins_of_record(record)
        return origins.read(step, self.folder.parent, self.origins, abstract)


def _all_saved(meet: threading.Barrier | None) -> bool:
    """Waits for the runs that train together; whether all of them have saved."""
    with contextlib.suppress(threading.BrokenBarrierError):
        return meet is None or meet.wait(SAVE_SECONDS) >= 0
    return False
