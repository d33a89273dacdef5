"""The steps of a workdir that were saved: which are whole, which is the newest, which the best, which go."""

import dataclasses
import json
import logging
import shutil
from pathlib import Path
from typing import Any

from txjax import digest
from txjax.types import Failure, UserError, setting

log = logging.getLogger("txjax")
FOLDER = "checkpoints"


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


class Steps:
    """The checkpoints of one workdir, as files."""

    def __init__(self, workdir: Path, options: Checkpoints | None = None):
        self.folder = Path(workdir).resolve() / FOLDER
        self.options = options or Checkpoints()

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
            raise unreadable(step, error) from error

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
            good = self._newest_undamaged(steps)
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

    def _newest_undamaged(self, steps: list[int]) -> int | None:
        """Changes nothing, and tells of the steps that it leaves out."""
        for step in reversed(steps):
            if not (faults := self.faults(step)):
                return step
            log.warning("checkpoint %d is damaged (%s); looking at the one before", step, "; ".join(faults))
        return None

    def clean(self) -> None:
        """Removes what a killed save left behind. Only the process that holds the workdir may call it."""
        for path in self.folder.glob("*") if self.folder.is_dir() else ():
            if (
                path.name.partition(".")[0].isdigit()
                and not path.name.endswith(".bad")
                and not digest.is_complete(path)
            ):
                shutil.rmtree(path)

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

    def forget_old(self) -> None:
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

    def newest_good(self) -> int | None:
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
            self.set_aside(step, faults)
        return not faults

    def set_aside(self, step: int, faults: list[str]) -> None:
        aside = self.path(step).with_name(f"{step}.bad")
        log.warning("checkpoint %d is damaged (%s); set aside as %s", step, "; ".join(faults), aside.name)
        shutil.rmtree(aside, ignore_errors=True)
        self.path(step).rename(aside)


def unreadable(step: int, error: Exception) -> Failure:
    """What to raise where a step's files are whole and their content is not."""
    lines = str(error).strip().splitlines()
    return Failure(f"checkpoint {step} cannot be read: {type(error).__name__}: {lines[0] if lines else ''}"[:300])
