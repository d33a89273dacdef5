"""A trace of some steps by JAX's profiler, in `WORKDIR/profile`."""

import contextlib
import dataclasses
import logging
import re
from pathlib import Path
from typing import Any

import jax

from txjax.distributed import is_primary
from txjax.errors import UserError

log = logging.getLogger("txjax")
FLAG = "--profile"


@dataclasses.dataclass(frozen=True)
class Steps:
    """The steps that a profile shows, numbered from 1: `start` to `stop`, both included."""

    start: int
    stop: int

    @staticmethod
    def parse(text: str) -> "Steps":
        """Reads `START:STOP`. Raises UserError for anything else."""
        numbers = re.fullmatch(r"(\d+):(\d+)", text)
        steps = Steps(int(numbers[1]), int(numbers[2])) if numbers else None
        if steps is None or not 1 <= steps.start <= steps.stop:
            raise UserError(FLAG, "START:STOP, two steps with 1 <= START <= STOP, such as 10:12", text)
        return steps

    def check(self, begun: int, end: int) -> None:
        """Raises UserError unless a run that has done `begun` steps, and ends after step `end`, takes all of these."""
        if self.stop > end:
            raise UserError(FLAG, f"steps up to {end}, where this run ends", str(self))
        if self.start <= begun:
            hint = "a step that is done is not run again: profile later steps, or another workdir"
            raise UserError(FLAG, f"steps from {begun + 1} on, where this run resumes", str(self), hint=hint)

    def __str__(self) -> str:
        return f"{self.start}:{self.stop}"


class Profile(contextlib.AbstractContextManager):
    """Traces some steps of the loop that runs inside. If there are none, nothing ever waits.

    The first process alone writes. A trace that starts at the run's first step shows its compilation.
    """

    def __init__(self, steps: Steps | None, workdir: Path, begun: int, end: int):
        """Raises UserError unless a run that has done `begun` steps, and ends after step `end`, takes all of them."""
        self.steps = steps
        self.folder = workdir / "profile"
        self.begun = begun
        self.tracing = False
        if self.steps is not None:
            self.steps.check(begun, end)

    def __enter__(self) -> "Profile":
        if self.steps is not None and self.steps.start == self.begun + 1:
            self._start()
        return self

    def after(self, step: int, results: Any) -> None:
        """Call it once for each step, when that has been started; `results` are arrays that it computes."""
        if self.steps is None or step not in (self.steps.start - 1, self.steps.stop):
            return
        jax.block_until_ready(results)
        if step == self.steps.stop:
            self._stop()
        else:
            self._start()

    def __exit__(self, *_: object) -> None:
        self._stop()  # where the loop failed, or was preempted: what there is may be of use

    def _start(self) -> None:
        if is_primary():
            jax.profiler.start_trace(self.folder)
            self.tracing = True

    def _stop(self) -> None:
        if self.tracing:
            self.tracing = False
            jax.profiler.stop_trace()
            log.info("profile of steps %s in %s", self.steps, self.folder)
