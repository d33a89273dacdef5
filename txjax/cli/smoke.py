"""`--smoke`: the same program for a few steps, to check that training, evaluation and saving work."""

from typing import TYPE_CHECKING, Any

from txjax.tree import children, walk

if TYPE_CHECKING:
    from txjax.experiment import Experiment

STEPS = 10
BATCHES = 2  # per evaluation


def shorten(experiment: "Experiment") -> str:
    """Shortens a run in place: 10 steps, all logged, evaluations of two batches and a checkpoint at the end.

    Fields of the optimizer in steps (warmup, decay) keep their share of the run, and so do the steps of its changes, at
    least one apart; changes for which no step is left do not happen.

    Returns:
      A line with each changed field.
    """
    steps = min(STEPS, experiment.num_steps)
    before = dict(walk(experiment))
    for _, part in walk(experiment.optimizer):
        for name in [step[1:] for step, value in children(part) if step.endswith("_steps") and value]:
            setattr(part, name, max(1, getattr(part, name) * steps // experiment.num_steps))
    begin = 0
    for change in experiment.changes:
        begin = max(begin + 1, change.step * steps // experiment.num_steps)
        change.step = begin
    experiment.changes = tuple(change for change in experiment.changes if change.step < steps)
    for evaluation in experiment.evals.values():
        evaluation.every_steps = steps
        evaluation.max_batches = min(BATCHES, evaluation.max_batches or BATCHES)
    experiment.num_steps = steps
    experiment.num_epochs = None
    experiment.log_every_steps = 1
    experiment.checkpoint.every_steps = steps
    changed = [(path, before[path], now) for path, now in walk(experiment) if _differ(before[path], now)]
    return "smoke run: " + (", ".join(f"{path}: {old} -> {now}" for path, old, now in changed) or "nothing is shorter")


def _differ(before: Any, now: Any) -> bool:
    return not list(children(now)) and before != now
