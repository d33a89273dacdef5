"""A run that is ready to train: its experiment, what was traced of it, its data, and the phases of its changes."""

import bisect
import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from txjax.changes import Phase, phases
from txjax.data import Portion, Source
from txjax.eval.evaluator import Programs
from txjax.experiment import Experiment
from txjax.train.branch import Branch
from txjax.train.state.init_from import InitSource
from txjax.train.state.state import Layout
from txjax.train.step import Step


@dataclasses.dataclass(frozen=True)
class RunPhase:
    """What trains between two changes of a run.

    Attributes:
      step: see `Run.step`.
      source: the training data.
    """

    phase: Phase
    step: Step
    source: Source

    @property
    def experiment(self) -> Experiment:
        """The experiment with the values of the phase."""
        return self.phase.experiment

    def portion(self, rows: Sequence[int]) -> Portion:
        """The batches of the phase, of which a process needs these rows."""
        return Portion(self.phase.begin, self.source, self.experiment.batch_size, rows)


@dataclasses.dataclass(frozen=True)
class Run:
    """An experiment that is ready to train in its workdir.

    Attributes:
      experiment: resolved.
      workdir: its absolute path; the folder need not exist.
      layout: of the state and of a batch.
      step: the train step of the experiment: traced, compiled at its first call.
      later: what trains after each change of the experiment, in the order of their steps.
      programs: of its evaluations, those that are traced.
      init_source: the run whose parameters it starts from. If None, it draws its own or resumes.
      branch: the run that it begins as a copy of. If None, it begins at step 0 or resumes.
      source: the training data.
      evals: the data of the evaluations, by name.
      fingerprints: of all data, by name.
      allow_config_change: whether it may resume with a config that differs from the workdir's.
      begun: when its preparation began, by `time.monotonic()`.
      notes: how the backend is set up, for the log.
    """

    experiment: Experiment
    workdir: Path
    layout: Layout
    step: Step
    later: tuple[RunPhase, ...]
    programs: Programs
    init_source: InitSource | None
    branch: Branch | None
    source: Source
    evals: dict[str, Source]
    fingerprints: dict[str, str]
    allow_config_change: bool
    begun: float
    notes: list[str]

    @property
    def origins(self) -> list[dict[str, Any]] | None:
        """What the manifest says of the runs that it comes from; None if it resumes or comes from none."""
        if self.branch is not None:
            return [self.branch.facts]
        return self.init_source.facts if self.init_source else None

    @functools.cached_property
    def phases(self) -> list[RunPhase]:
        """What trains from the beginning and after each change."""
        return [RunPhase(phases(self.experiment)[0], self.step, self.source), *self.later]

    def phase_of(self, step: int) -> RunPhase:
        """The phase of an update, whose numbers begin with 1."""
        return self.phases[bisect.bisect_left(self.phases, step, key=lambda part: part.phase.begin) - 1]
