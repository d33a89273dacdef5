"""What a run notes at each start, in its log and in its workdir: its setup, its config, what runs it on which data."""

import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from txjax import backend, distributed, tree
from txjax.data.class_names import known_names
from txjax.data.file_changes import file_digests
from txjax.data.loading.default_eval_data import differences
from txjax.errors import UserError
from txjax.log import setup_logging
from txjax.train.prepared_run import Run
from txjax.train.run.workdir import write_config, write_manifest
from txjax.train.state.counting import tokens_of_phase
from txjax.train.state.pace import paced_optimizer

PACE = ("optimizer", "num_steps", "batch_size", "changes")  # the fields that learning rates follow from
log = logging.getLogger("txjax")


def begin_log(runs: Sequence[Run]) -> None:
    """Sends messages to the workdirs: at first how the backend is set up, and how data of evaluations differ."""
    workdirs = [run.workdir for run in runs]
    setup_logging(workdirs[0], distributed.process_index(), workdirs[1:])
    for note in runs[0].notes:
        log.debug(note)
    experiment = runs[0].experiment
    for name, evaluator in experiment.evals.items():
        for difference in differences(evaluator.data, evaluator.trained_on(experiment.data)):
            log.info("eval/%s reads %s", name, difference)


def write_notes(runs: Sequence[Run], costs: Mapping[str, int], start: int) -> None:
    """Writes `config.json` and `manifest.json` of runs. Warns where the learning rate jumps after a change of config.

    Args:
      costs: of a step, by name, as `counting.step_costs` returns them.
      start: the step that they resume from; 0 if they are new.
    """
    for run in runs:
        if 0 < start < run.experiment.num_steps:
            _warn_of_jump(run, start)
        _write_notes(run, costs)


def _write_notes(run: Run, costs: Mapping[str, int]) -> None:
    first = run.phases[0].experiment
    tokens = round(tokens_of_phase(first))
    facts: dict[str, Any] = {**costs, "tokens_per_epoch": tokens * len(run.source) // first.batch_size}
    if names := known_names(first.data.class_names()):
        facts["classes"] = list(names)
    write_config(run.workdir, run.experiment)
    files = file_digests(run.experiment)
    write_manifest(run.workdir, run.fingerprints, facts, backend.compiler_options(), run.origins, files)


def _warn_of_jump(run: Run, start: int) -> None:
    """Compares the learning rate of the next step with the one that the config of the run before gives for it."""
    steps = run.experiment.num_steps
    # It may be damaged, or name an optimizer of the user's own, whose class is not imported.
    with contextlib.suppress(UserError, OSError, KeyError, TypeError, AttributeError):
        stored = tree.read_json((run.branch.workdir if run.branch else run.workdir) / "config.json")
        now = {name: tree.to_json(getattr(run.experiment, name)) for name in PACE}
        before = {name: stored.get(name, now[name]) for name in PACE}
        if before == now:
            return
        earlier: Any = {name: tree.from_json(value) for name, value in before.items()}
        experiments = (dataclasses.replace(run.experiment, **earlier), run.experiment)
        schedules = [paced_optimizer(experiment).lr(experiment.num_steps) for experiment in experiments]
        rates = [f"{float(schedule(start)):.4g}" for schedule in schedules]
        if rates[0] != rates[1]:
            change = "" if stored["num_steps"] == steps else f" (num_steps {stored['num_steps']:,} -> {steps:,})"
            log.warning("learning rate at step %d: %s before, %s now%s", start + 1, *rates, change)
