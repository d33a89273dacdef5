"""Checkpoints: Orbax writes the arrays, digests prove them, the newest good one is found again.

A step is the folder `checkpoints/STEP/`:

    arrays/        Orbax: `weights` (parameters, their averages, model state) and `training` (moments, counters)
    record.json    the data position, the metrics at this step, shapes and dtypes
    digests.json   a digest of every file, written last: a step without it was never finished
"""

import contextlib
import dataclasses
import json
import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from orbax.checkpoint import v1 as ocp

from txjax import digest, disk, processes
from txjax.files import replace_text
from txjax.processes import agree
from txjax.types import Failure, PyTree, TrainState, UserError, flat_paths, near_misses, setting

log = logging.getLogger("txjax")
FOLDER = "checkpoints"
SAVE_SECONDS = 3600.0  # that the others wait until process 0 has the digests of all files


@dataclasses.dataclass
class Checkpoints:
    """When to save and what to keep.

    Attributes:
      every_steps: steps between saves; the last step is always saved.
      keep: how many of the newest steps stay.
      best: a metric such as `eval/valid/loss` whose best step stays too; None keeps only the newest.
      best_mode: whether the smallest or the largest value is best.
    """

    every_steps: int = setting(1000, at_least=1)
    keep: int = setting(2, at_least=1)
    best: str | None = None
    best_mode: str = setting("min", choices=("min", "max"))


def split(state: TrainState) -> dict[str, PyTree]:
    """The state as the two parts that are stored: what a model needs to run, and what only training needs."""
    weights = {"params": state.params, "frozen": state.frozen, "model_state": state.model_state}
    return {
        "weights": weights | ({"ema": state.ema} if state.ema else {}),
        "training": {"step": state.step, "opt_state": state.opt_state, "skipped": state.skipped},
    }


def join(parts: dict[str, PyTree]) -> TrainState:
    """The inverse of `split`."""
    return TrainState(**parts["weights"], **parts["training"])


class Store:
    """The checkpoints of one workdir. One save is under way at a time; the next one waits for it."""

    def __init__(self, workdir: Path, options: Checkpoints | None = None):
        self.folder = Path(workdir).resolve() / FOLDER
        self.options = options or Checkpoints()
        self._saving: threading.Thread | None = None
        self._failure: BaseException | None = None

    def path(self, step: int) -> Path:
        return self.folder / str(step)

    def steps(self) -> list[int]:
        """Steps whose save was finished, oldest first."""
        if not self.folder.is_dir():
            return []
        found = [int(p.name) for p in self.folder.iterdir() if p.name.isdigit() and digest.is_complete(p)]
        return sorted(found)

    def record(self, step: int) -> dict[str, Any]:
        """What was written beside the arrays of a step.

        Raises:
          Failure: it is no record.
        """
        try:
            found = json.loads((self.path(step) / "record.json").read_text())
            return {"step": int(found["step"]), "arrays": dict(found["arrays"])} | found
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _unreadable(step, error) from error

    def faults(self, step: int) -> list[str]:
        """What is wrong with a step's files, a line each; empty if every bit is right."""
        return digest.faults(self.path(step))

    def choose(self, which: str = "last") -> int:
        """The step that `which` names: `last` (newest good one), `best`, or a number.

        Raises:
          UserError: there is no such step, or it is damaged.
        """
        steps = self.steps()
        if which == "last":
            good = next((step for step in reversed(steps) if not self.faults(step)), None)
        elif which == "best":
            good = self.best()
        else:
            good = int(which) if which.isdigit() and int(which) in steps else None
        if good is None:
            raise UserError("--step", "last, best (with checkpoint.best set) or one of " + str(steps), which)
        faults = self.faults(good)
        if faults:
            raise UserError(f"checkpoint {good}", "undamaged files", "; ".join(faults), hint=f"take another of {steps}")
        return good

    def clean(self) -> None:
        """Removes what a killed save left behind. Only the process that holds the workdir may call it."""
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            if (
                path.name.partition(".")[0].isdigit()
                and not path.name.endswith(".bad")
                and not digest.is_complete(path)
            ):
                shutil.rmtree(path)

    # Saving

    def save(self, step: int, state: TrainState, record: dict[str, Any], meet: threading.Barrier | None = None) -> None:
        """Starts saving a step; returns when the arrays are copied from the devices.

        Args:
          record: JSON values to keep beside the arrays: `data` (its position) and `metrics`.
          meet: of runs that train together: no older step is forgotten before all have this one.

        Raises:
          UserError: the disk is full, now or since the last save was started.
          Failure: the disk can't be written, or doesn't give back what was written.
        """
        self.save_parts(step, split(state), record, meet)

    def save_parts(
        self, step: int, parts: dict[str, PyTree], record: dict[str, Any], meet: threading.Barrier | None = None
    ) -> None:
        """The same for some of the parts of a state: the `weights` alone are what `init_from` asks for."""
        self.wait()
        arrays = {path: [list(x.shape), str(x.dtype)] for path, x in flat_paths(parts).items()}
        agree(f"the save of step {step}", lambda: self._make_room(step, parts))
        with jax.transfer_guard_host_to_device("allow"):  # by which Orbax's processes agree
            response = self._guarded(step, lambda: ocp.save_checkpointables_async(self.path(step) / "arrays", parts))

        def finish() -> None:
            try:
                self._guarded(step, response.result)
                processes.barrier(f"the arrays of step {step}", SAVE_SECONDS)
                if processes.first():
                    self._guarded(step, lambda: self._commit(step, {"step": step, **record, "arrays": arrays}))
                    if _all_there(meet):
                        self._guarded(step, self._forget_old)
                processes.barrier(f"the end of the save of step {step}", SAVE_SECONDS)
            except BaseException as error:  # noqa: B036 - raised again by `wait` in the training thread
                self._failure = error
                if meet is not None:
                    meet.abort()

        self._saving = threading.Thread(target=finish, name=f"save {step}")
        self._saving.start()

    def _commit(self, step: int, record: dict[str, Any]) -> None:
        replace_text(self.path(step) / "record.json", json.dumps(record, indent=1))
        digest.commit(self.path(step))
        if faults := digest.read_back(self.path(step)):
            self._set_aside(step, faults)
            raise Failure(f"step {step} does not come back from the disk as it was written; {self._safe()}")

    def _guarded(self, step: int, act: Callable[[], Any]) -> Any:
        try:
            with disk.writing(self.folder, f"step {step}", self._safe):
                return act()
        except Exception:
            if not (processes.several() or digest.is_complete(self.path(step))):  # of several some may still write
                shutil.rmtree(self.path(step), ignore_errors=True)
            raise

    def _safe(self) -> str:
        kept = self.steps()
        return f"step {kept[-1]} is safe" if kept else "no step was saved yet"

    def _make_room(self, step: int, parts: PyTree) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        disk.check_room(self.folder, sum(x.nbytes for x in jax.tree.leaves(parts)), f"step {step}", self._safe)
        shutil.rmtree(self.path(step), ignore_errors=True)
        self.path(step).mkdir(parents=True)

    def wait(self) -> None:
        """Until the save under way is finished. Raises what went wrong in it."""
        if self._saving is not None:
            self._saving.join()
        self.poll()

    def poll(self) -> None:
        """Raises what went wrong in a save that has ended; never waits."""
        if self._saving is not None and not self._saving.is_alive():
            self._saving, failure, self._failure = None, self._failure, None
            if failure is not None:
                raise failure

    def best(self) -> int | None:
        """The finished step with the best value of `options.best`; None if no step has one."""
        scores = {}
        for step in self.steps() if self.options.best else ():
            try:
                value = self.record(step).get("metrics", {}).get(self.options.best)
            except Failure:  # a damaged step is nobody's best, and no reason to stop
                continue
            if isinstance(value, float | int):
                scores[step] = value if self.options.best_mode == "min" else -value
        return min(scores, key=lambda step: (scores[step], step)) if scores else None

    def _forget_old(self) -> None:
        """Called when the newest step was read back: whatever befell the others, one good step stays."""
        steps = self.steps()
        keep = {*steps[-self.options.keep :], self.best()}
        self._forget([step for step in steps if step not in keep])

    def go_back(self, step: int) -> None:
        """Forgets the steps after this one."""
        self._forget([later for later in self.steps() if later > step])

    def _forget(self, steps: list[int]) -> None:
        for step in steps:
            (self.path(step) / digest.NAME).unlink()  # incomplete from here on, should we be killed
            shutil.rmtree(self.path(step))

    # Restoring

    def restore(self, abstract: TrainState) -> tuple[TrainState, dict[str, Any]] | None:
        """The newest step whose every bit is right, placed as `abstract` says; None if nothing was ever saved.

        Removes what a killed save left; a bad step is reported, set aside as `STEP.bad` and the one before it is taken.

        Raises:
          UserError: there were steps and none is good, or the arrays aren't those of this model.
        """
        step = agree("the step to go on from", self._newest_good)
        if step is None:
            return None
        return join(self.load(step, split(abstract))), self.record(step)

    def _newest_good(self) -> int | None:
        """Removes what a killed save left behind, sets bad steps aside."""
        self.clean()
        tried = self.steps()
        for step in reversed(tried):
            if self.sound(step):
                if not any(path.startswith("training/") for path in self.record(step)["arrays"]):
                    raise UserError(
                        "--workdir",
                        "a run that can go on",
                        f"{self.folder.parent}, whose step {step} has weights alone (no moments, no counters)",
                        hint=f"take another --workdir and start it with --config.init_from={self.folder.parent}",
                    )
                return step
        if tried:
            raise UserError(
                str(self.folder), "an undamaged step", f"{tried}, all damaged", hint="remove the folder to start anew"
            )
        return None

    def sound(self, step: int) -> bool:
        """Whether every bit of a step is right; one that isn't is reported and set aside."""
        faults = self.faults(step)
        if faults:
            self._set_aside(step, faults)
        return not faults

    def _set_aside(self, step: int, faults: list[str]) -> None:
        aside = self.path(step).with_name(f"{step}.bad")
        log.warning("checkpoint %d is damaged (%s); set aside as %s", step, "; ".join(faults), aside.name)
        shutil.rmtree(aside, ignore_errors=True)
        self.path(step).rename(aside)

    def load(self, step: int, abstract: dict[str, PyTree]) -> dict[str, PyTree]:
        """Whole parts of one step, placed as `abstract` says (any mesh). Digests are the caller's business.

        Raises:
          UserError: an array is missing or too much, or has another shape or dtype: nothing is ever lost or cast.
        """
        self._check(step, abstract)
        wanted = flat_paths(abstract)
        extra = [p for p in self.record(step)["arrays"] if p.split("/")[0] in abstract and p not in wanted]
        if extra:
            raise UserError(f"checkpoint {step}", f"no array {extra[0]}", hint=_OTHER_MODEL)
        return self._read(step, abstract)

    def load_some(self, step: int, abstract: dict[str, PyTree]) -> dict[str, PyTree]:
        """The arrays of one step that are in `abstract`, placed as it says; no others are read.

        Raises:
          UserError: an array is missing, or has another shape or dtype.
        """
        self._check(step, abstract)
        return self._read(step, abstract)

    def _check(self, step: int, abstract: PyTree) -> None:
        stored = {path: tuple(spec) for path, spec in self.record(step)["arrays"].items()}
        for path, leaf in flat_paths(abstract).items():
            if path not in stored:
                raise UserError(
                    f"checkpoint {step}", f"an array {path}", near=near_misses(path, stored), hint=_OTHER_MODEL
                )
            if (list(leaf.shape), str(leaf.dtype)) != stored[path]:
                shape, dtype = stored[path]
                raise UserError(
                    f"checkpoint {step}",
                    f"{path} to be {leaf.dtype}{list(leaf.shape)}",
                    f"{dtype}{shape}",
                    hint=_OTHER_MODEL,
                )

    def _read(self, step: int, abstract: PyTree) -> dict[str, PyTree]:
        context = ocp.Context()
        context.pytree.loading.partial_load = True
        try:
            with context:
                return ocp.load_checkpointables(self.path(step) / "arrays", abstract)
        except Exception as error:  # of a dozen kinds: the digests are right, the content is none of Orbax's
            raise _unreadable(step, error) from error


def _all_there(meet: threading.Barrier | None) -> bool:
    """Whether all runs that train together have saved, once they have."""
    with contextlib.suppress(threading.BrokenBarrierError):
        return meet is None or meet.wait(SAVE_SECONDS) >= 0
    return False


def _unreadable(step: int, error: Exception) -> Failure:
    lines = str(error).strip().splitlines()
    return Failure(f"checkpoint {step} cannot be read: {type(error).__name__}: {lines[0] if lines else ''}"[:300])


_OTHER_MODEL = "it was saved by another model or optimizer: see `txjax diff`"
