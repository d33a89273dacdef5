"""The base of models that have something of their own for each of several tasks."""

from collections.abc import Mapping
from typing import Any

import flax.linen as nn

from txjax.errors import UserError, near_misses
from txjax.models.model import Model
from txjax.types import config_field


class TaskModel(Model, kw_only=True):
    """A model of several tasks, which `objectives.MultiTask` calls for one at a time.

    Attributes:
      tasks: what the model has for each task, by name.
      task: the task of a call; `objectives.MultiTask` sets it (`for_task`).
    """

    tasks: dict[str, Any] | Mapping[str, Any] = config_field()  # Flax freezes the dicts of a module that is called
    task: str | None = None

    @nn.nowrap
    def for_task(self, task: str) -> Any:
        if task not in self.tasks:
            near = near_misses(task, self.tasks)
            raise UserError("config.model.tasks", f"what the task {task} has", ", ".join(self.tasks), near)
        return self.clone(task=task)

    @nn.nowrap
    def entry(self) -> Any:
        """What the model has for the call's task. Raises UserError if no task is chosen."""
        if (self.task or "") not in self.tasks:
            hint = "the objective MultiTask(...) sets it"
            raise UserError("config.model.task", f"one of {', '.join(self.tasks)}", self.task, hint=hint)
        return self.tasks[self.task or ""]
