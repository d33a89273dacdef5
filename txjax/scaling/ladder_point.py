"""A run of a ladder as a point of a sweep: the settings that the ladder chose, and all that follows from its steps."""

from __future__ import annotations

from typing import Any

from txjax.experiment import Experiment
from txjax.scaling.ladder import LadderRun
from txjax.sweep.names import NAME, Point, text


def point_of(run: LadderRun, base: Experiment) -> Point:
    """A run as a point of a sweep of the ladder's config, named by its budget (or tokens) and its width.

    Every evaluation runs once, at the end. So no checkpoint before it has a score, and none is kept as the best.

    Args:
      base: the ladder's config.
    """
    chosen = f"tokens={run.tokens}" if run.budget is None else f"flops={text(float(f'{run.budget:.4g}'))}"
    return {
        NAME: f"{chosen},width={run.width}",
        "model.width": run.width,
        "model.depth": run.depth,
        "model.heads": run.heads,
        "num_steps": run.steps,
        "batch_size": run.batch_size,
        "optimizer.peak_lr": run.lr,
        **{f"optimizer.schedule.{name}": steps for name, steps in _phases(run, base).items()},
        **{f"evals.{name}.every_steps": run.steps for name in base.evals},
        **({} if base.checkpoint.best is None else {"checkpoint.best": None}),
    }


def _phases(run: LadderRun, base: Experiment) -> dict[str, int]:
    """The steps of the schedule's phases: the ladder's warmup; the others keep their shares of the config's run."""
    schedule: Any = base.optimizer.schedule
    warmup = run.warmup or 0
    steps = {} if run.warmup is None else {"warmup_steps": run.warmup}
    if decay := getattr(schedule, "decay_steps", None):
        share = round(decay / base.num_steps * run.steps)
        steps["decay_steps"] = max(1, min(share, run.steps - warmup))
    if hold := getattr(schedule, "hold_steps", None):
        steps["hold_steps"] = max(1, warmup, round(hold / base.num_steps * run.steps))
    return steps
