"""Benchmarks of language models by lm-evaluation-harness, during training and from a workdir."""

import dataclasses
from typing import Any

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.eval.harness import harness_library
from txjax.eval.harness.harness_model import HarnessModel
from txjax.eval.harness.harness_texts import texts_of
from txjax.objectives import Objective
from txjax.types import PyTree, config_field


@dataclasses.dataclass
class Harness(Evaluator):
    """Scores of tasks of lm-evaluation-harness (Gao et al. 2021), the extra `harness`.

    Its requests are answered by the run's model: likelihoods of continuations and of whole texts, and generated texts.
    `data` are not evaluated: they say how texts are read, as in `Samples`. `max_batches` is a limit, too: of a task as
    many documents are read as so many batches have rows.

    Scores: `TASK/METRIC`, such as `hellaswag/acc`, and `TASK/METRIC_stderr`; `TASK/FILTER/METRIC` if a task filters its
    answers.

    Attributes:
      tasks: names of tasks, groups and tags of the library, of `include_path`, or of txjax: the tag `txjax`.
      num_fewshot: examples in a prompt. If None, each task's own number.
      limit: documents of a task, the first ones. If None, all.
      include_path: a folder of further tasks, YAML files. If None, there are none.
      window: positions of a text, at most: of a context that is longer the end is read. If None, as many as the model
        has learned positions, or as the data have.
      resamplings: for the standard errors of metrics that are no means (the library's default is 100000).
    """

    tasks: tuple[str, ...] = ("txjax",)
    num_fewshot: int | None = config_field(None, at_least=0)
    limit: int | None = config_field(None, at_least=1)
    include_path: str | None = None
    window: int | None = config_field(None, at_least=2)
    resamplings: int = config_field(1000, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("tokens", "targets")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if "targets" not in objective.required_keys:
            raise UserError("eval", "a run that predicts the next token", type(objective).__name__)
        texts_of(self.data, model, "eval", self.window)
        harness_library.check_tasks(self.tasks, "eval.", self.include_path)

    def start(self, context: Context) -> Evaluate:
        field = f"config.evals.{context.name}"
        texts = texts_of(self.data, context.model, field, self.window)
        loaded = harness_library.load(self.tasks, field, self.include_path, self.num_fewshot)
        model = HarnessModel(context, texts)
        rows = None if self.max_batches is None else self.max_batches * context.batch_size
        limit = min((number for number in (self.limit, rows) if number is not None), default=None)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            model.variables = variables
            return harness_library.evaluate(model, loaded, limit, self.resamplings)

        return evaluate
