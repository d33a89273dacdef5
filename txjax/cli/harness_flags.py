"""The flags of `txjax evaluate` for tasks of lm-evaluation-harness, and the table of their scores."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from txjax.errors import UserError

if TYPE_CHECKING:
    from txjax.experiment import Experiment

NAME = "harness"  # of the evaluation
STDERR = "_stderr"
OPTIONS = ("num_fewshot", "limit", "window")
COLUMNS = ("task", "metric", "value", "stderr")


def add_harness_flags(parser: argparse.ArgumentParser) -> None:
    """Adds them."""
    group = parser.add_argument_group("tasks of lm-evaluation-harness", "instead of the run's evaluations")
    group.add_argument("--tasks", metavar="A,B", help="names of tasks, groups or tags; txjax: five small ones")
    group.add_argument("--num_fewshot", "--num-fewshot", type=int, metavar="K", help="examples in a prompt")
    group.add_argument("--limit", type=int, metavar="N", help="only the first N documents of a task")
    group.add_argument("--include_path", "--include-path", metavar="FOLDER", help="further tasks, whose code may run")
    group.add_argument("--window", type=int, metavar="N", help="tokens that the model reads at most")


def with_tasks(experiment: Experiment, flags: argparse.Namespace) -> Experiment:
    """The experiment with the evaluation that the flags describe, or its own if they name no task.

    Raises:
      UserError: a task is unknown, a number is out of range, or the library is missing.
    """
    from txjax.eval import Harness
    from txjax.eval.harness.harness_library import check_tasks
    from txjax.tree import check_fields

    options = {name: getattr(flags, name) for name in OPTIONS if getattr(flags, name) is not None}
    if flags.tasks is None:
        for name, value in options.items():
            raise UserError(f"--{name}", "--tasks too", value)
        for name, evaluator in experiment.evals.items():
            if isinstance(evaluator, Harness) and evaluator.include_path not in (None, flags.include_path):
                expected = "the folder that --include_path names, since tasks of a folder may run its code"
                raise UserError(f"config.evals.{name}.include_path", expected, evaluator.include_path)
        return experiment
    tasks = tuple(filter(None, flags.tasks.split(",")))
    harness = Harness(data=experiment.data, tasks=tasks, include_path=flags.include_path, **options)
    check_fields(harness, "--")
    check_tasks(tasks, "--", flags.include_path)
    checkpoint = dataclasses.replace(experiment.checkpoint, best=None)  # by an evaluation that is not there
    return dataclasses.replace(experiment, evals={NAME: harness}, checkpoint=checkpoint)


def task_rows(scores: Mapping[str, float]) -> Iterator[tuple[str, ...]]:
    """The rows of the table: a task, a metric, its value, and its standard error where it has one."""
    for name, value in scores.items():
        if not name.endswith(STDERR):
            task, _, metric = name.partition("/")
            error = scores.get(name + STDERR)
            yield task, metric, f"{value:.4f}", "" if error is None else f"{error:.4f}"
