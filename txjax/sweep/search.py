"""A search: runs that Optuna proposes, one after the other, from what the ones before came to.

    def search(trial):
        return {"optimizer.peak_lr": trial.suggest_float("lr", 1e-4, 1e-1, log=True)}

A trial is one run in a folder of its own; one whose worker dies goes on in the same folder at another.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Sequence
from typing import Any

from txjax import tree
from txjax.config import read
from txjax.sweep.job import TRAIN, PointResult, SweepJob
from txjax.sweep.local import Local, Running
from txjax.sweep.optuna_study import CAUSE, FOLDER, Heartbeat, OptunaStudy, optuna
from txjax.sweep.resolve import Resolved, apply
from txjax.sweep.sweep_folder import SweepPoint, Tail
from txjax.types import UserError, near_misses

LOOK = 1.0  # seconds between two looks at the storage


def metric_of(experiment: Any, wanted: str | None) -> tuple[str, int]:
    """The metric that is searched by, and the steps between two of its values: the first evaluation's loss by default.

    Raises:
      UserError: none of the experiment's evaluations writes it.
    """
    known = [f"eval/{name}/loss" for name in experiment.evals]
    if not known:
        raise UserError("config.evals", "an evaluation whose loss can be searched by", hint="add one to get_config()")
    metric = wanted or known[0]
    kind, _, rest = metric.partition("/")
    name, _, key = rest.partition("/")
    if kind != "eval" or name not in experiment.evals or not key:
        raise UserError("--metric", "a metric of an evaluation", wanted, near_misses(metric, known) or known)
    return metric, experiment.evals[name].every_steps


def propose(source: str, overrides: Sequence[str], trial: Any, name: str) -> Resolved:
    """The run that `search` of the config file makes of a trial. Raises UserError where it can't."""
    file = read(source)
    point = file.call("search", trial)
    if not isinstance(point, dict):
        raise UserError("--config", "a search() that returns a point: a dict from dotted paths to values", point)
    return apply(file, overrides, point, name)


def of_params(source: str, overrides: Sequence[str], params: str) -> Any:
    """The experiment of a trial with these parameters, as JSON. Raises UserError where there can be none."""
    try:
        found = json.loads(params)
        if not isinstance(found, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise UserError("--trial", "the parameters of a trial of search(), as JSON", params, hint=str(error)) from None
    return propose(source, overrides, optuna().trial.FixedTrial(found), "trial").experiment


@dataclasses.dataclass
class Trial:
    """One trial under way in this worker.

    Attributes:
      values: of the metric so far, by step.
      reported: the last step that Optuna knows of.
      pruned: it was asked to stop because it is bad.
    """

    trial: Any
    point: SweepPoint
    tail: Tail
    beat: Heartbeat
    values: dict[int, float] = dataclasses.field(default_factory=dict)
    reported: int = 0
    pruned: bool = False


class Search(Local):
    """Runs trials here, and waits for those at other workers, which may die.

    Args:
      flops_per_step: of a run such as these; the table's ETA rests on it.
    """

    def __init__(
        self, work: SweepJob, study: OptunaStudy, flops_per_step: int, jobs: int = 1, seconds: float | None = None
    ):
        super().__init__(work, [], jobs, seconds)
        self.study, self.flops_per_step = study, flops_per_step
        self.trials: dict[str, Trial] = {}  # under way
        self.taken: list[Trial] = []  # and not started: a run of a killed worker is still in the folder
        self._missing, self._looked, self._take_at = 1, 0.0, 0.0

    def run(self) -> dict[str, PointResult]:
        """As Local's; what it has taken and not started goes to another worker."""
        super().run()
        for mine in self.taken:
            self.study.give_back(mine.trial.number)
            self.ended[mine.point.name] = PointResult("left")
        return self.ended

    def more(self) -> bool:
        """Whether trials are missing, here or at other workers."""
        if time.monotonic() - self._looked > LOOK:
            self._missing, self._looked = self.study.missing(), time.monotonic()
        return bool(self.taken) or self._missing > 0

    def start(self) -> None:
        """Takes trials while there is room, and starts them."""
        for mine in list(self.taken):
            if self.work.finished(mine.point):  # its worker died before it could tell
                self.taken.remove(mine)
                self._read(mine)
                self._told(mine, "")
            elif self._started(mine):
                self.taken.remove(mine)
        if len(self.running) + len(self.taken) < self.jobs and time.monotonic() >= self._take_at:
            with self.study.alone():
                trial = self.study.take()
                if trial is not None:
                    self.taken.append(self._trial(trial))
            self._take_at = time.monotonic() + (LOOK if trial is None else 0.0)

    def _trial(self, trial: Any) -> Trial:
        """What a taken trial is to this worker; it is noted in sweep.json, where other workers' trials are too."""
        name = trial.user_attrs[FOLDER]
        run = propose(self.work.config, self.work.overrides, trial, name)
        values = {path: tree.to_json(value) for path, value in run.point.items()}
        point = SweepPoint(name, run.digest, values, run.experiment.num_steps, self.flops_per_step)
        if all(point.name != other.name for other in self.work.points):
            self.work.points.append(point)
        notes = self.work.folder.read()
        others = [SweepPoint(**other) for other in notes.pop("points") if other["name"] != name]
        self.work.folder.write([*others, point], notes)
        self.view.add(point)
        return Trial(trial, point, Tail(self.work.folder.run(name)), Heartbeat(self.study, trial.number))

    def _started(self, mine: Trial) -> bool:
        words = [f"--workdir={self.work.folder.run(mine.point.name)}", "--trial=" + json.dumps(mine.trial.params)]
        self.trials[mine.point.name] = mine
        return self.launch([mine.point], [*TRAIN, f"--config={self.work.config}", *words, *self.work.overrides])

    def watch(self) -> None:
        """Gives signs of life, reports what the runs logged, and asks the bad ones to stop."""
        for mine in self.taken:
            mine.beat()
        for running in self.running:
            mine = self.trials[running.points[0].name]
            mine.beat()
            self._read(mine)
            try:
                if self._bad(mine):
                    mine.pruned = True
                    running.process.let_go()
            except self.study.gone:  # another worker took it for dead
                running.process.let_go()

    def _read(self, mine: Trial) -> None:
        metric = self.study.aim.metric
        mine.values |= {int(row["step"]): float(row[metric]) for row in mine.tail.read() if metric in row}

    def _bad(self, mine: Trial) -> bool:
        """Reports what is new. Returns whether successive halving stops the run now."""
        bad = False
        for step, value in mine.values.items():
            if step > mine.reported and math.isfinite(value):
                mine.trial.report(value, step)
                mine.reported = step
                bad = bad or (step < mine.point.num_steps and mine.trial.should_prune())
        return bad and not mine.pruned

    def settle(self, running: Running, point: SweepPoint, code: int, stopping: bool) -> bool:
        """Tells Optuna how a trial ended."""
        mine = self.trials.pop(point.name)
        self._read(mine)
        gone_on = code in (75, -15) and not mine.pruned and not self.work.finished(point)
        if gone_on:  # it goes on: here, or at another worker
            self.study.give_back(mine.trial.number)
            self.end(point, PointResult("stopped"))
        else:
            self._told(mine, running.cause(code, point.name) if code else "")
        return True

    def _told(self, mine: Trial, cause: str) -> None:
        """Ends a trial whose run has ended."""
        number, states = mine.trial.number, self.study.states
        value = mine.values.get(mine.point.num_steps, math.nan)
        if mine.pruned and not self.work.finished(mine.point):
            self.study.tell(number, state=states.PRUNED)
            self.end(mine.point, PointResult("pruned"))
        elif self.work.finished(mine.point) and math.isfinite(value):
            self.study.tell(number, values=value)
            self.end(mine.point, PointResult("finished"))
        else:
            cause = cause or f"{self.study.aim.metric} is missing or not finite at the end"
            mine.trial.set_user_attr(CAUSE, cause)
            self.study.tell(number, state=states.FAIL)
            self.end(mine.point, PointResult("failed", cause))
