"""What a run notes in its workdir at each start: its config, and what runs it on which data."""

import contextlib
import logging
from collections.abc import Mapping

from txjax import backend, tree
from txjax.train.prepare import Run
from txjax.train.run.workdir import write_config, write_manifest
from txjax.types import UserError

log = logging.getLogger("txjax")


def write_notes(run: Run, costs: Mapping[str, int], start: int) -> None:
    """Writes `config.json` and `manifest.json`. Warns where the learning rate jumps, since the config was changed.

    Args:
      costs: of a step, by name, as `counting.step_costs` returns them.
      start: the step that the run resumes from; 0 if it is a new one.
    """
    if 0 < start < run.experiment.num_steps:
        _warn_of_jump(run, start)
    counts = {**costs, "tokens_per_epoch": costs["tokens_per_step"] * len(run.source) // run.experiment.batch_size}
    origins = run.init_source.facts if run.init_source else None
    write_config(run.workdir, run.experiment)
    write_manifest(run.workdir, run.fingerprints, counts, backend.compiler_options(), origins)


def _warn_of_jump(run: Run, start: int) -> None:
    """Compares the learning rate of the next step with the one that the config of the run before gives for it."""
    steps = run.experiment.num_steps
    # It may be damaged, or name an optimizer of the user's own, whose class is not imported.
    with contextlib.suppress(UserError, OSError, KeyError, TypeError, AttributeError):
        stored = tree.read_json(run.workdir / "config.json")
        fields = ("optimizer", "num_steps")
        if [stored[name] for name in fields] == [tree.to_json(getattr(run.experiment, name)) for name in fields]:
            return
        before, now = tree.from_json(stored["optimizer"]).lr(stored["num_steps"]), run.experiment.optimizer.lr(steps)
        rates = [f"{float(schedule(start)):.4g}" for schedule in (before, now)]
        if rates[0] != rates[1]:
            change = "" if stored["num_steps"] == steps else f" (num_steps {stored['num_steps']:,} -> {steps:,})"
            log.warning("learning rate at step %d: %s before, %s now%s", start + 1, *rates, change)
