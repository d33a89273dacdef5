"""The Optuna study of a search: workers take trials, send heartbeats and report values; none is lost or counted twice.

A worker locks the study while it takes a trial, so any half-taken trial it finds was left by a worker that died.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txjax.errors import require
from txjax.io.disk import wait_for_lock
from txjax.ranking import best_key

NAME = "txjax"
# User attributes of a trial.
FOLDER = "folder"
TAKEN = "taken"
CAUSE = "cause"
GRACE = 4  # missed heartbeats after which a trial counts as dead
REDUCTION = 3  # of successive halving: a third of the trials continues with three times the budget


@dataclasses.dataclass(frozen=True)
class Aim:
    """The objective and the limits of a search.

    Attributes:
      metric: a metric of the log to minimise: `eval/valid/loss`.
      every_steps: steps between two of its values, and the shortest run that can be pruned.
      trials: how many trials to end, including pruned and failed ones; a retry counts as the trial it repeats.
      seed: of the proposals; trial number n samples with seed + n, whichever worker runs it.
      prune: whether bad trials are stopped early, by successive halving.
      heartbeat: seconds between two heartbeats of a trial.
    """

    metric: str
    every_steps: int
    trials: int
    seed: int = 0
    prune: bool = True
    heartbeat: int = 15


def optuna() -> Any:
    """The Optuna module. Raises UserError if it is not installed."""
    require("optuna", "optuna", "txjax sweep", "search")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Suppresses the warnings of experimental features (heartbeats, retries, `constant_liar`) inside the block.

    Heartbeats are sent by `OptunaStudy.beat`, so the warning that `Study.optimize` should send them is suppressed too.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna().exceptions.ExperimentalWarning)
        warnings.filterwarnings("ignore", "Heartbeat of storage is supposed to be used with Study.optimize")
        yield


def sampler(seed: int) -> Any:
    """A tree-structured Parzen estimator that treats running trials as bad ones."""
    with quiet():
        return optuna().samplers.TPESampler(seed=seed, constant_liar=True)


class OptunaStudy:
    """The study of one search, from one worker.

    Args:
      storage: URL of the Optuna storage: `sqlite:///...`, `postgresql://...`.
      folder: of the sweep.
    """

    def __init__(self, aim: Aim, storage: str, folder: Path):
        library = optuna()
        self.aim = aim
        self.folder = folder
        self.states = library.trial.TrialState
        self.pruners = library.pruners
        self.gone = library.exceptions.UpdateFinishedTrialError
        self.fail_stale = library.storages.fail_stale_trials
        options = {"connect_args": {"timeout": 60}} if storage.startswith("sqlite") else {}
        with self.alone(), quiet():
            names = ("RetryHeartbeatStaleTrialCallback", "RetryFailedTrialCallback")  # since and before Optuna 4.9
            self.retry = next(getattr(library.storages, n) for n in names if hasattr(library.storages, n))()
            self.storage = library.storages.RDBStorage(
                storage, options, heartbeat_interval=aim.heartbeat, grace_period=GRACE * aim.heartbeat
            )
            self.study = library.create_study(
                storage=self.storage, study_name=NAME, load_if_exists=True, direction="minimize"
            )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the study against other workers, to take a trial or give one back."""
        with wait_for_lock(self.folder / ".search", "--workdir"):
            yield

    def trials(self) -> list[Any]:
        """All trials in their current state, by number."""
        return self.study.get_trials(deepcopy=False)

    def missing(self) -> int:
        """How many trials have not ended."""
        ends = (self.states.COMPLETE, self.states.PRUNED)
        return self.aim.trials - sum(t.state in ends or CAUSE in t.user_attrs for t in self.trials())

    def take(self) -> Any:
        """The next trial. None if all missing trials are running. Call it inside `alone`."""
        self._recover()
        if self.missing() <= sum(trial.state == self.states.RUNNING for trial in self.trials()):
            return None
        with quiet():
            trial = self.study.ask()
        self.beat(trial.number)
        first = (self._history(self.trials()[trial.number]) or [trial.number])[0]
        trial.set_user_attr(FOLDER, f"trial-{first:04d}")
        trial.set_user_attr(TAKEN, trial.number)
        self.study.sampler = sampler(self.aim.seed + trial.number)
        self.study.pruner = self._pruner()
        return trial

    def _pruner(self) -> Any:
        if not self.aim.prune:
            return self.pruners.NopPruner()
        return self.pruners.SuccessiveHalvingPruner(min_resource=self.aim.every_steps, reduction_factor=REDUCTION)

    def _recover(self) -> None:
        """Retries the trials of dead workers as new trials with the same parameters.

        Optuna finds trials whose heartbeats stopped. Trials that were only partly taken have no heartbeat.
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
                    self.retry(self.study, copy.deepcopy(trial))  # it appends to its argument

    def _history(self, trial: Any) -> list[int]:
        """The numbers of the trials that a trial repeats, oldest first."""
        return trial.system_attrs.get("retry_history", [])

    def beat(self, number: int) -> None:
        """Sends a heartbeat of a trial."""
        study = self.storage.get_study_id_from_name(NAME)
        self.storage.record_heartbeat(self.storage.get_trial_id_from_study_id_trial_number(study, number))

    def tell(self, number: int, **what: Any) -> bool:
        """Ends a trial with `values=` or `state=`. False if another worker declared it dead: then its retry counts."""
        try:
            self.study.tell(number, **what)
        except (ValueError, self.gone):
            return False
        return True

    def give_back(self, number: int) -> None:
        """Ends an interrupted trial; the next worker that takes one resumes it."""
        with self.alone():
            self.tell(number, state=self.states.FAIL)
            self._recover()

    def best(self) -> tuple[str, float] | None:
        """The folder name and the value of the best trial so far, or None if none has ended with a finite value."""
        complete = (trial for trial in self.trials() if trial.state == self.states.COMPLETE)
        values = {trial.user_attrs[FOLDER]: trial.value for trial in complete}
        name = best_key(values)
        return None if name is None else (name, values[name])


class Heartbeat:
    """Sends the heartbeats of a trial when they are due."""

    def __init__(self, study: OptunaStudy, number: int):
        self.study = study
        self.number = number
        self._at = 0.0

    def __call__(self) -> None:
        """Sends a heartbeat if one is due."""
        if time.monotonic() >= self._at:
            self.study.beat(self.number)
            self._at = time.monotonic() + self.study.aim.heartbeat / 2
