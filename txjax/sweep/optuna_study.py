"""Optuna's study of a search: trials that are taken, kept alive, told of, and never lost or counted twice.

Workers hold one lock while they take trials, so that whatever they find half done was left by one that died.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import fcntl
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txjax.types import require

NAME = "txjax"
FOLDER, TAKEN, CAUSE = "folder", "taken", "cause"  # what a trial is told by, besides Optuna's own
GRACE = 4  # heartbeats without one, and a trial counts as dead
REDUCTION = 3  # of halving: a third of the trials goes on after each rung, which is three times as long


@dataclasses.dataclass(frozen=True)
class Aim:
    """What a search is for.

    Attributes:
      metric: of the log, the less the better: `eval/valid/loss`.
      every_steps: between two of its values: the shortest run that is judged.
      trials: how many come to an end, pruned and failed ones among them; a retry counts as what it repeats.
      seed: of the proposals; trial number n draws from seed + n, whichever worker has it.
      prune: whether bad trials are stopped early, by successive halving.
      heartbeat: seconds between two signs of life of a trial.
    """

    metric: str
    every_steps: int
    trials: int
    seed: int = 0
    prune: bool = True
    heartbeat: int = 15


def optuna() -> Any:
    """The library. Raises UserError where it isn't installed."""
    require("optuna", "optuna", "txjax sweep", "search")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Heartbeats, retries and `constant_liar` have been experimental for years; and `Study.beat` is who beats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna().exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used with Study.optimize")
        yield


def sampler(seed: int) -> Any:
    """Tree-structured Parzen estimators, which take trials under way for bad ones."""
    with quiet():
        return optuna().samplers.TPESampler(seed=seed, constant_liar=True)


class OptunaStudy:
    """The study of one search, as one worker sees it.

    Args:
      storage: Optuna's, as a URL: `sqlite:///...`, `postgresql://...`.
      folder: of the sweep.
    """

    def __init__(self, aim: Aim, storage: str, folder: Path):
        self.aim, self.folder, library = aim, folder, optuna()
        self.states, self.pruners = library.trial.TrialState, library.pruners
        self.gone = library.exceptions.UpdateFinishedTrialError
        self.fail_stale = library.storages.fail_stale_trials
        options = {"connect_args": {"timeout": 60}} if storage.startswith("sqlite") else {}
        with self.alone(), quiet():
            names = ("RetryHeartbeatStaleTrialCallback", "RetryFailedTrialCallback")  # since Optuna 4.9, and before
            self.retry = next(getattr(library.storages, n) for n in names if hasattr(library.storages, n))()
            self.storage = library.storages.RDBStorage(
                storage, options, heartbeat_interval=aim.heartbeat, grace_period=GRACE * aim.heartbeat
            )
            self.study = library.create_study(
                storage=self.storage, study_name=NAME, load_if_exists=True, direction="minimize"
            )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Workers take trials, and give them back, one after the other."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".search").open("a+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def trials(self) -> list[Any]:
        """All trials as they stand, by number."""
        return self.study.get_trials(deepcopy=False)

    def missing(self) -> int:
        """How many trials have not come to their end."""
        ends = (self.states.COMPLETE, self.states.PRUNED)
        return self.aim.trials - sum(t.state in ends or CAUSE in t.user_attrs for t in self.trials())

    def take(self) -> Any:
        """The next trial, None where all that are missing are under way. Call it inside `alone`."""
        self._recover()
        if self.missing() <= sum(trial.state == self.states.RUNNING for trial in self.trials()):
            return None
        with quiet():
            trial = self.study.ask()
        self.beat(trial.number)
        first = (self._history(self.trials()[trial.number]) or [trial.number])[0]
        trial.set_user_attr(FOLDER, f"trial-{first:04d}")
        trial.set_user_attr(TAKEN, trial.number)
        self.study.sampler, self.study.pruner = sampler(self.aim.seed + trial.number), self._pruner()
        return trial

    def _pruner(self) -> Any:
        if not self.aim.prune:
            return self.pruners.NopPruner()
        return self.pruners.SuccessiveHalvingPruner(min_resource=self.aim.every_steps, reduction_factor=REDUCTION)

    def _recover(self) -> None:
        """Gives the values of trials whose workers died to new trials.

        Optuna finds those whose heartbeats stand still. Those that were never taken whole have no heartbeat.
        """
        with quiet():
            self.fail_stale(self.study)
        for trial in self.trials():
            if trial.state == self.states.RUNNING and trial.user_attrs.get(TAKEN) != trial.number:
                self.study.tell(trial.number, state=self.states.FAIL)
        trials = self.trials()
        repeated = {number for trial in trials for number in self._history(trial)}
        for trial in trials:
            if trial.state == self.states.FAIL and CAUSE not in trial.user_attrs and trial.number not in repeated:
                with quiet():
                    self.retry(self.study, copy.deepcopy(trial))  # it appends to what it is given

    def _history(self, trial: Any) -> list[int]:
        """The numbers of the trials that a trial repeats, the first one first."""
        return trial.system_attrs.get("retry_history", [])

    def beat(self, number: int) -> None:
        """Gives a sign of life of a trial."""
        study = self.storage.get_study_id_from_name(NAME)
        self.storage.record_heartbeat(self.storage.get_trial_id_from_study_id_trial_number(study, number))

    def tell(self, number: int, **what: Any) -> bool:
        """Ends a trial: `values=` or `state=`. False where another worker took it for dead: then its retry counts."""
        try:
            self.study.tell(number, **what)
        except (ValueError, self.gone):
            return False
        return True

    def give_back(self, number: int) -> None:
        """Ends a trial that is to go on, at the next worker that looks."""
        with self.alone():
            self.tell(number, state=self.states.FAIL)
            self._recover()

    def best(self) -> tuple[str, float] | None:
        """The folder's name and the value of the best trial so far."""
        done = [trial for trial in self.trials() if trial.state == self.states.COMPLETE]
        found = min(done, key=lambda trial: trial.value, default=None)
        return found and (found.user_attrs[FOLDER], found.value)


class Heartbeat:
    """When a trial's next sign of life is due."""

    def __init__(self, study: OptunaStudy, number: int):
        self.study, self.number, self._at = study, number, 0.0

    def __call__(self) -> None:
        """Gives one, if it is time."""
        if time.monotonic() >= self._at:
            self.study.beat(self.number)
            self._at = time.monotonic() + self.study.aim.heartbeat / 2
