"""A search: Optuna proposes each run from the results of the earlier ones.

    def search(trial):
        return {"optimizer.peak_lr": trial.suggest_float("lr", 1e-4, 1e-1, log=True)}

A trial is one run in its own folder. If its worker dies, another worker resumes it in the same folder.
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
from txjax.errors import UserError, near_misses
from txjax.sweep.job import TRAIN, PointResult, SweepJob
from txjax.sweep.local import Local, Running
from txjax.sweep.optuna_study import CAUSE, FOLDER, Heartbeat, OptunaStudy, optuna
from txjax.sweep.resolve import Resolved, apply
from txjax.sweep.sweep_folder import SweepPoint, Tail

LOOK = 1.0  # seconds between reads of the storage


def metric_of(experiment: Any, wanted: str | None) -> tuple[str, int]:
    """The metric to minimise, and the steps between two of its values. By default, the first evaluation's loss.

    Raises:
      UserError: no evaluation of the experiment logs it.
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
    """The run that `search` of the config file returns for a trial. Raises UserError if it is invalid."""
    file = read(source)
    point = file.call("search", trial)
    if not isinstance(point, dict):
        raise UserError("--config", "a search() that returns a point: a dict from dotted paths to values", point)
    return apply(file, overrides, point, name)


def of_params(source: str, overrides: Sequence[str], params: str) -> Any:
    """The experiment of a trial with these parameters (JSON). Raises UserError if they are invalid."""
    try:
        by_name = json.loads(params)
        if not isinstance(by_name, dict):
            raise ValueError("not an object")
    except ValueError as error:
        raise UserError("--trial", "the parameters of a trial of search(), as JSON", params, hint=str(error)) from None
    return propose(source, overrides, optuna().trial.FixedTrial(by_name), "trial").experiment


@dataclasses.dataclass
class Trial:
    """A running trial of this worker.

    Attributes:
      values: of the metric so far, by step.
      reported: the last step reported to Optuna.
      pruned: whether it was stopped by pruning.
    """

    trial: Any
    point: SweepPoint
    tail: Tail
    beat: Heartbeat
    values: dict[int, float] = dataclasses.field(default_factory=dict)
    reported: int = 0
    pruned: bool = False


class Search(Local):
    """Runs trials on this machine, and waits for trials of other workers, which may die.

    Args:
      flops_per_step: of a typical run, for the ETA.
    """

    def __init__(
        self, work: SweepJob, study: OptunaStudy, flops_per_step: int, jobs: int = 1, seconds: float | None = None
    ):
        super().__init__(work, [], jobs, seconds)
        self.study = study
        self.flops_per_step = flops_per_step
        self.trials: dict[str, Trial] = {}  # running
        self.taken: list[Trial] = []  # not started yet: the run of a killed worker still locks the folder
        self._missing = 1
        self._looked = 0.0
        self._take_at = 0.0

    def run(self) -> dict[str, PointResult]:
        """Runs as `Local`; trials taken and not started are given back for other workers."""
        super().run()
        for mine in self.taken:
            self.study.give_back(mine.trial.number)
            self.ended[mine.point.name] = PointResult("left")
        return self.ended

    def more(self) -> bool:
        """Whether trials are missing, on this worker or on others."""
        if time.monotonic() - self._looked > LOOK:
            self._missing = self.study.missing()
            self._looked = time.monotonic()
        return bool(self.taken) or self._missing > 0

    def start(self) -> None:
        """Takes trials and starts them, up to `jobs`."""
        for mine in list(self.taken):
            if self.work.is_finished(mine.point):  # its worker died before it reported the end
                self.taken.remove(mine)
                self._read(mine)
                self._end_trial(mine, "")
            elif self._start_trial(mine):
                self.taken.remove(mine)
        if len(self.running) + len(self.taken) < self.jobs and time.monotonic() >= self._take_at:
            with self.study.alone():
                trial = self.study.take()
                if trial is not None:
                    self.taken.append(self._trial(trial))
            self._take_at = time.monotonic() + (LOOK if trial is None else 0.0)

    def _trial(self, trial: Any) -> Trial:
        """A taken trial as a `Trial`; adds its point to sweep.json, which all workers share."""
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

    def _start_trial(self, mine: Trial) -> bool:
        words = [f"--workdir={self.work.folder.run(mine.point.name)}", "--trial=" + json.dumps(mine.trial.params)]
        self.trials[mine.point.name] = mine
        return self.launch([mine.point], [*TRAIN, f"--config={self.work.config}", *words, *self.work.overrides])

    def watch(self) -> None:
        """Sends heartbeats, reports logged values to Optuna, and stops runs that are pruned."""
        for mine in self.taken:
            mine.beat()
        for running in self.running:
            mine = self.trials[running.points[0].name]
            mine.beat()
            self._read(mine)
            try:
                if self._bad(mine):
                    mine.pruned = True
                    running.process.stop()
            except self.study.gone:  # another worker declared it dead
                running.process.stop()

    def _read(self, mine: Trial) -> None:
        metric = self.study.aim.metric
        mine.values |= {int(row["step"]): float(row[metric]) for row in mine.tail.read() if metric in row}

    def _bad(self, mine: Trial) -> bool:
        """Reports new values. Returns whether successive halving prunes the run now."""
        bad = False
        for step, value in mine.values.items():
            if step > mine.reported and math.isfinite(value):
                mine.trial.report(value, step)
                mine.reported = step
                bad = bad or (step < mine.point.num_steps and mine.trial.should_prune())
        return bad and not mine.pruned

    def settle(self, running: Running, point: SweepPoint, code: int, stopping: bool) -> bool:
        """Reports to Optuna how a trial ended."""
        mine = self.trials.pop(point.name)
        self._read(mine)
        interrupted = code in (75, -15) and not mine.pruned and not self.work.is_finished(point)
        if interrupted:  # it resumes here, or on another worker
            self.study.give_back(mine.trial.number)
            self.end(point, PointResult("stopped"))
        else:
            self._end_trial(mine, running.cause(code, point.name) if code else "")
        return True

    def _end_trial(self, mine: Trial, cause: str) -> None:
        """Ends a trial whose run has ended: pruned, finished or failed."""
        number = mine.trial.number
        states = self.study.states
        value = mine.values.get(self.work.saved_step(mine.point), math.nan)
        if mine.pruned and not self.work.is_finished(mine.point):
            self.study.tell(number, state=states.PRUNED)
            self.end(mine.point, PointResult("pruned"))
        elif self.work.is_finished(mine.point) and math.isfinite(value):
            self.study.tell(number, values=value)
            self.end(mine.point, PointResult("finished"))
        else:
            cause = cause or f"{self.study.aim.metric} is missing or not finite at the end"
            mine.trial.set_user_attr(CAUSE, cause)
            self.study.tell(number, state=states.FAIL)
            self.end(mine.point, PointResult("failed", cause))
