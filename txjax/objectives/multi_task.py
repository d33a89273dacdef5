"""Several objectives at once, each on its own part of a batch."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import jax
from flax import traverse_util

from txjax.data import Dataset, Tasks
from txjax.data.loading.limits import for_task
from txjax.data.loading.rng import hash32
from txjax.errors import UserError, near_misses
from txjax.nn.parameters.active_adapter import defer_adapter_checks
from txjax.objectives.base import Objective
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field


@dataclasses.dataclass
class MultiTask(Objective):
    """The sum of the losses of several tasks, each on its rows of the batch (`data.Tasks`).

    The task `texts` has the keys `texts/tokens`, `texts/label`, ... of the batch; its objective gets them as `tokens`,
    `label`, ..., and calls the model as `model.for_task("texts")`. Its loss terms and metrics are `texts/NAME`. Each
    term has its own count, so accumulation stays exact; the model's state (BatchNorm) goes through the tasks in order.
    A task's random draws have a key of their own. A task without rows in the batch is not called
    (`data.AlternatingTasks`).

    Attributes:
      tasks: the objectives, by the name of their task.
      weights: the factors of the tasks' losses; tasks that are not named have 1. The logged terms have these factors.
    """

    tasks: dict[str, Objective] = config_field(factory=dict)
    weights: dict[str, float] = config_field(factory=dict)

    @property
    def required_keys(self) -> tuple[str, ...]:
        needs = {task: [need.split(" | ") for need in part.required_keys] for task, part in self.tasks.items()}
        return (
            "id",
            *(" | ".join(f"{task}/{key}" for key in keys) for task, task_keys in needs.items() for keys in task_keys),
        )

    def check(self, model: Any, data: Dataset) -> None:
        if not self.tasks:
            raise UserError("objective.tasks", "at least one objective", self.tasks)
        for name, weight in self.weights.items():
            if name not in self.tasks or not weight > 0 or not math.isfinite(weight):
                expected = f"numbers above 0 for some of {', '.join(self.tasks)}"
                raise UserError("objective.weights", expected, self.weights, near_misses(name, self.tasks))
        if not isinstance(data, Tasks):
            return
        if set(data.parts) != set(self.tasks):
            expected = f"a task for each of config.data.parts: {', '.join(data.parts)}"
            raise UserError("objective.tasks", expected, ", ".join(self.tasks))
        for name, part in self.tasks.items():
            with _name_task(name):
                part.check(for_task(model, name), data.parts[name])

    def check_model(self, model: Any, batch: Batch) -> None:
        for name, part in self.tasks.items():
            with _name_task(name):
                part.check_model(for_task(model, name), part_of_batch(batch, name))

    def init(self, model: Any, rngs: dict[str, jax.Array], batch: Batch) -> PyTree:
        """The variables of all tasks: those that several have are the first one's."""
        flat_variables: dict[Any, Any] = {}
        with defer_adapter_checks():
            for number, (name, part) in enumerate(self.tasks.items()):
                task_rngs = {kind: _key(key, name) if number else key for kind, key in rngs.items()}
                with _name_task(name):
                    task_variables = part.init(for_task(model, name), task_rngs, part_of_batch(batch, name))
                flat_variables = traverse_util.flatten_dict(task_variables) | flat_variables
        return traverse_util.unflatten_dict(flat_variables)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        losses: dict[str, Mean] = {}
        metrics: dict[str, Mean] = {}
        state = {name: value for name, value in variables.items() if name != "params"}
        for name, part in self.tasks.items():
            if f"{name}/id" not in batch:
                continue
            task_variables = {"params": variables["params"], **state}
            output = part(for_task(model, name), task_variables, part_of_batch(batch, name), _key(key, name), train)
            weight = self.weights.get(name, 1.0)
            state = output.model_state
            losses |= {f"{name}/{term}": Mean(weight * mean.total, mean.count) for term, mean in output.losses.items()}
            metrics |= {f"{name}/{metric}": mean for metric, mean in output.metrics.items()}
        return ObjectiveOutput(losses, metrics, state)


def part_of_batch(batch: Batch, task: str) -> Batch:
    """The rows of a task in a batch, [B R ...] -> [B*R ...], by their keys without its name."""
    task_rows = {key.removeprefix(f"{task}/"): x for key, x in batch.items() if key.startswith(f"{task}/")}
    return {key: x.reshape(-1, *x.shape[2:]) for key, x in task_rows.items()}


@contextlib.contextmanager
def _name_task(task: str) -> Iterator[None]:
    """Errors inside name the task."""
    try:
        yield
    except UserError as error:
        of_task = UserError(error.field, f"{error.expected} (task {task})", error.got, error.near, error.hint)
        raise of_task.with_path(f"objective.tasks.{task}", "objective") from None


def _key(key: jax.Array, task: str) -> jax.Array:
    return jax.random.fold_in(key, hash32("task", task))
