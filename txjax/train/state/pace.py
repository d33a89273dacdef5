"""What the learning rate of a run follows where its batches change: updates, examples or tokens."""

import dataclasses
import math

from txjax.changes import phases
from txjax.data.dataset import Spec
from txjax.data.keys import part_of
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.optim import Optimizer
from txjax.optim.schedules import Paced

TOKENS = ("tokens", "source_tokens")  # the keys of a batch, or of a task in it, that tokens are counted of


def tokens_of(spec: Spec) -> int:
    """The tokens of an example, or of a batch, with this spec: padding among them."""
    return sum(math.prod(x.shape) for key, x in spec.items() if part_of(key)[1] in TOKENS)


def paced_optimizer(experiment: Experiment) -> Optimizer:
    """The optimizer, whose schedule has the pace of the run's changes.

    Raises:
      UserError: the schedule counts tokens, and the data have none.
    """
    schedule = experiment.optimizer.schedule
    if schedule.progress == "steps" or not experiment.changes:
        return experiment.optimizer
    run = phases(experiment)
    sizes = [_size_of(phase.experiment, schedule.progress) for phase in run]
    begins = tuple(phase.begin for phase in run)
    paced = Paced(schedule=schedule, begins=begins, paces=tuple(size / sizes[0] for size in sizes))
    return dataclasses.replace(experiment.optimizer, schedule=paced)


def _size_of(experiment: Experiment, unit: str) -> float:
    """The examples, or the tokens, of an update of a phase; where each batch is of one task, the mean."""
    if unit == "examples":
        return experiment.batch_size
    shares = experiment.data.batch_shares(experiment.seed, experiment.num_steps)
    specs = experiment.data.batch_specs()
    tokens = sum(share * tokens_of(specs[task]) for task, share in shares.items())
    if not tokens:
        got = f"tokens, and {type(experiment.data).__name__} has none"
        raise UserError("config.optimizer.schedule.progress", "steps or examples", got)
    return experiment.batch_size * tokens
