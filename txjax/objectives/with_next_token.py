"""Fine-tuning of a language model that keeps the loss of its text."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from txjax.data import Dataset
from txjax.data.loading.limits import for_task
from txjax.errors import UserError
from txjax.objectives.base import Objective, apply_model
from txjax.objectives.classification import Classification, SingleOutput
from txjax.objectives.next_token import NextToken
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field

TASK = "task"
TEXT = "text"


@dataclasses.dataclass
class WithNextToken(Objective):
    """A task's loss and, `weight` times, the loss of the next token of the same text (Radford et al. 2018, eq. 5).

    The model is called once; its head is `Heads({"task": ..., "text": ...})`: the task's, and one to logits over
    the vocabulary. An evaluation of the task alone names it: `Predictions(task="task", ...)`.

    Attributes:
      task: the objective of the task.
      text: the objective of the text.
      weight: of the text's loss: the paper's lambda. The logged term has this factor.
    """

    task: SingleOutput = dataclasses.field(default_factory=Classification)
    text: NextToken = dataclasses.field(default_factory=NextToken)
    weight: float = config_field(0.5, above=0, traced=True)

    heads: ClassVar[str] = 'Heads({"task": ..., "text": ...})'
    models: ClassVar[str] = "Decoder"

    @property
    def required_keys(self) -> tuple[str, ...]:
        return (*dict.fromkeys((*self.task.required_keys, "tokens", "segments")),)

    @property
    def tasks(self) -> dict[str, Objective]:
        """The objectives by the name of their task, for evaluations."""
        return {TASK: self.task, TEXT: self.text}

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        return self.task.inputs(model, batch)

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        for name, part in self.tasks.items():
            part.check(for_task(model, name), data)

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if not isinstance(output, dict) or set(output) != set(self.tasks):
            expected = "a model with heads for task and text, for WithNextToken"
            raise UserError("config.model", expected, type(model).__name__, hint=f"its head must be {self.heads}")
        for name, part in self.tasks.items():
            part.check_output(model, output[name], batch)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        outputs, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train)
        self.check_output(model, outputs, batch)
        batches = {TASK: batch, TEXT: batch | _shift_tokens(batch)}
        by_part = {
            name: part(_Called(outputs[name]), variables, batches[name], key, train)
            for name, part in self.tasks.items()
        }
        text = {name: Mean(self.weight * mean.total, mean.count) for name, mean in by_part[TEXT].losses.items()}
        metrics = by_part[TASK].metrics | {f"text_{name}": mean for name, mean in by_part[TEXT].metrics.items()}
        return aux.outcome(by_part[TASK].losses | text, metrics)


class _Called:
    """Stands for a model whose output for the batch is known."""

    def __init__(self, output: Any):
        self.output = output

    def apply(self, variables: PyTree, *, mutable: Any = False, **inputs: Any) -> Any:
        return self.output if mutable is False else (self.output, {})


def _shift_tokens(batch: Batch) -> Batch:
    """The next tokens of each row and their weights: within one segment, in examples that have weight."""
    tokens = batch["tokens"]
    segments = batch["segments"]
    following, of = (jnp.pad(x[:, 1:], ((0, 0), (0, 1))) for x in (tokens, segments))
    known = (of == segments) & (segments > 0)
    counted = batch["weights"].reshape(len(tokens), -1).max(1, keepdims=True) > 0
    return {"targets": following, "weights": (known & counted).astype(jnp.float32)}
