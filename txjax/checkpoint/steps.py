"""The saved steps of a workdir: which are complete, which is the newest, which the best, which are removed."""

import dataclasses
import json
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from txjax.errors import RunError, UserError, join_names
from txjax.io import digest
from txjax.io.digest import Unavailable
from txjax.io.json_files import load_json
from txjax.io.temporary import remove_leftovers
from txjax.ranking import best_key
from txjax.types import config_field

log = logging.getLogger("txjax")
FOLDER = "checkpoints"
# What a save writes in a step: temporary files with the number of their process, and of earlier versions without it.
_SAVED = re.compile(r"(arrays|(record|digests|added)\.json)(\.|$)|\.(record|digests|added)\.json\.(.*\.)?tmp$|\.nfs")


@dataclasses.dataclass
class Checkpoints:
    """When to save and what to keep.

    Attributes:
      every_steps: steps between saves; the last step is always saved.
      keep: how many of the newest steps are kept.
      best: a metric such as `eval/valid/loss` whose best step is kept too; if None, only the newest. A step whose value
        is not finite is never the best.
      best_mode: whether the smallest or the largest value is best.
      frozen: whether frozen parameters that came unchanged from `init_from` are "saved" in every step, or stay in their
        "origin", the run that they came from, which must then be kept as long as this one.
    """

    every_steps: int = config_field(1000, at_least=1)
    keep: int = config_field(2, at_least=1)
    best: str | None = None
    best_mode: str = config_field("min", choices=("min", "max"))
    frozen: str = config_field("saved", choices=("saved", "origin"))


class Steps:
    """The checkpoints of one workdir, as files."""

    def __init__(self, workdir: Path, options: Checkpoints | None = None):
        self.folder = Path(workdir).resolve() / FOLDER
        self.options = options or Checkpoints()
        self.passed_over: list[int] = []  # steps that `_newest` skipped: unreadable for now

    def path(self, step: int) -> Path:
        return self.folder / str(step)

    def steps(self) -> list[int]:
        """The steps whose save was finished, oldest first."""
        return sorted(int(p.name) for p in self._entries() if is_step(p.name) and digest.is_complete(p))

    def _entries(self) -> list[Path]:
        """The entries of the folder; none if it doesn't exist. Raises RunError if it can't be listed."""
        try:
            return sorted(self.folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise digest.unavailable(error) or RunError(f"{self.folder} cannot be read: {error.strerror}") from error

    def record(self, step: int) -> dict[str, Any]:
        """The record saved with the arrays of a step, and what was added to it since.

        Raises:
          RunError: the file is not a record. Unavailable: it can't be read for now.
        """
        try:
            record = load_json(self.path(step) / "record.json")
            record |= json.loads(digest.added_text(self.path(step)) or "{}")
            return {"step": int(record["step"]), "arrays": dict(record["arrays"])} | record
        except (OSError, ValueError, KeyError, TypeError) as error:
            outage = digest.unavailable(error) if isinstance(error, OSError) else None
            raise outage or unreadable(step, error) from error

    def faults(self, step: int) -> list[str]:
        """The faults of a step's files, one line each; empty if all digests match."""
        return digest.faults(self.path(step))

    def choose(self, which: str = "last") -> int:
        """The step that `which` names: `last` (newest undamaged), `best`, or a number.

        Raises:
          UserError: there is no such step, or it is damaged. Unavailable: it can't be read for now.
        """
        steps = self.steps()
        if not steps:
            expected = "a run with a checkpoint"
            hint = f"there is none in {self.folder}: the run has not saved yet, or they were removed"
            raise UserError("--workdir", expected, str(self.folder.parent), hint=hint)
        if which == "last":
            good = self._newest(self._is_undamaged)
        elif which == "best":
            good = self.best()
        else:
            good = next((step for step in steps if str(step) == which), None)
        if good is None:
            metric = self.options.best
            hint = f"no step has a finite {metric}" if which == "best" and metric else ""
            raise UserError("--step", "last, best (with checkpoint.best set) or one of " + str(steps), which, hint=hint)
        faults = self.faults(good)
        if faults:
            raise UserError(f"checkpoint {good}", "undamaged files", "; ".join(faults), hint=f"choose one of {steps}")
        return good

    def _is_undamaged(self, step: int) -> bool:
        """Whether all digests of a step match; if not, warns and leaves it in place."""
        if faults := self.faults(step):
            log.warning("checkpoint %d is damaged (%s); looking at the one before", step, "; ".join(faults))
        return not faults

    def clean(self) -> None:
        """Removes what a killed save left behind; warns of entries that are not txjax's and leaves them.

        Only the process that has the lock of the workdir may call it.
        """
        unknown = []
        for path in self._entries():
            if is_step(path.name) and digest.is_complete(path):
                for name in (digest.ADDED, digest.NAME):
                    remove_leftovers(path / name)
                continue
            if is_made(path):
                shutil.rmtree(path)
            elif not (path.name.startswith(".") or path.name.endswith(".bad")):
                unknown.append(path.name)
        if unknown:
            log.warning("ignored in %s, since txjax did not create them: %s", self.folder, join_names(unknown, 10))

    def best(self) -> int | None:
        """The finished step with the best finite value of `options.best`, the first of equal ones, or None."""
        scores = {}
        for step in self.steps() if self.options.best else ():
            try:
                value = self.record(step).get("metrics", {}).get(self.options.best)
            except Unavailable:
                raise
            except RunError:  # a damaged step can't be the best, and is no reason to stop
                continue
            if isinstance(value, float | int):
                scores[step] = value
        return best_key(scores, self.options.best_mode)

    def forget_old(self, step: int) -> None:
        """Removes older steps; called once this step was read back, so that one undamaged step is always kept.

        Later steps, which could not be read when the run began, are left as they are.
        """
        steps = [other for other in self.steps() if other <= step]
        try:
            keep = {*steps[-self.options.keep :], self.best()}
        except Unavailable as error:  # the best step is unknown
            log.warning("no older checkpoint is removed: %s", error)
            return
        self._forget([other for other in steps if other not in keep])

    def go_back(self, step: int) -> None:
        """Removes the steps after this one."""
        self._forget([later for later in self.steps() if later > step])

    def _forget(self, steps: list[int]) -> None:
        for step in steps:
            (self.path(step) / digest.NAME).unlink()  # marks it incomplete, in case of a kill
            shutil.rmtree(self.path(step))

    def newest_good(self) -> int | None:
        """The newest undamaged step, or None. Removes remains of killed saves; renames damaged steps to `STEP.bad`."""
        self.clean()
        step = self._newest(self.verify_step)
        if step is None:
            if damaged := sorted(path.name for path in self.folder.glob("*.bad")):
                hint = "remove the folder to start from scratch"
                raise UserError(str(self.folder), "an undamaged step", f"{', '.join(damaged)}, all damaged", hint=hint)
            return None
        self.check_training(step, self.record(step)["arrays"])
        return step

    def check_training(self, step: int, arrays: dict[str, Any]) -> None:
        """Raises UserError if a step has only weights. `arrays` are those of its record."""
        if not any(path.startswith("training/") for path in arrays):
            raise UserError(
                "--workdir",
                "a run that can be resumed",
                f"{self.folder.parent}, whose step {step} has only weights (no moments, no counters)",
                hint=f"take another --workdir and start it with --config.init_from={self.folder.parent}",
            )

    def _newest(self, good: Callable[[int], bool]) -> int | None:
        """The newest step for which `good` is true, or None. Skips steps that can't be read for now.

        Raises:
          Unavailable: none is good, and some can't be read for now: the run must not restart from step 0.
        """
        outage: Unavailable | None = None
        for step in reversed(self.steps()):
            try:
                if good(step):
                    return step
            except Unavailable as error:
                log.warning("checkpoint %d is skipped and left as it is: %s", step, error)
                outage = error
                self.passed_over.append(step)
        if outage is not None:
            raise Unavailable(f"no checkpoint can be read: {outage}; start the same command again later")
        return None

    def verify_step(self, step: int) -> bool:
        """Whether all digests of a step match; if not, warns and renames it to `STEP.bad`.

        Raises:
          Unavailable: it can't be read for now.
        """
        faults = self.faults(step)
        if faults:
            self.set_aside(step, faults)
        return not faults

    def set_aside(self, step: int, faults: list[str]) -> None:
        """Renames a damaged step to `STEP.bad`, with a warning."""
        aside = self.path(step).with_name(f"{step}.bad")
        log.warning("checkpoint %d is damaged (%s); set aside as %s", step, "; ".join(faults), aside.name)
        shutil.rmtree(aside, ignore_errors=True)
        self.path(step).rename(aside)


def is_step(name: str) -> bool:
    """Whether a name is that of a step's folder: a number without leading zeros."""
    return re.fullmatch("0|[1-9][0-9]*", name) is not None


def is_made(path: Path) -> bool:
    """Whether this is the folder of a step, complete or not, and contains only files that a save writes."""
    try:
        return is_step(path.name) and not path.is_symlink() and all(map(_SAVED.match, os.listdir(path)))
    except OSError:
        return False


def unreadable(step: int, error: Exception) -> RunError:
    """The error for a step whose files match their digests but can't be parsed."""
    lines = str(error).strip().splitlines()
    return RunError(f"checkpoint {step} cannot be read: {type(error).__name__}: {lines[0] if lines else ''}"[:300])
