"""Texts that a decoder or an encoder-decoder generates during training."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax import backend
from txjax.data import Conversations, Dataset
from txjax.data.keys import SOURCES
from txjax.decoding import Inputs, Sampling, Search, generator_for, prompts_for, until
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.objectives import Objective, model_inputs
from txjax.types import PyTree, config_field


@dataclasses.dataclass
class Samples(Evaluator):
    """Texts that the model generates, in `samples/NAME/STEP.txt` of the workdir and in the report.

    The random keys are the same at every step, so that only the model changes. `data` says how prompts are read: their
    tokenizer and, for an encoder-decoder, the format of its sources, their length and the special tokens (`Pairs`).

    Scores: none.

    Attributes:
      prompts: the texts that are continued, or an encoder-decoder's sources: texts, or paths of recordings.
      texts: the number of texts per prompt; equal ones if the search draws nothing.
      length: the number of tokens to generate, at most.
      search: how tokens are chosen: `Sampling`, `Beam`. If its `end` is (), texts end where `data` and their
        tokenizer say.
    """

    prompts: tuple[str, ...] = ("\n",)
    texts: int = config_field(2, at_least=1)
    length: int = config_field(256, at_least=1)
    search: Search = config_field(factory=lambda: Sampling(temperature=0.8))

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("tokens", "targets")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        if "targets" not in objective.required_keys:
            raise UserError("eval", "a run that predicts the next token", type(objective).__name__)
        if isinstance(self.data, Conversations):
            expected = "texts, since prompts have no images; GeneratedAnswers writes answers about them"
            raise UserError("eval.data", expected, type(self.data).__name__)
        prompts = prompts_for(self.data, "eval.data")
        of_training, of_samples = ({*data.spec()} & {*SOURCES} for data in (train, self.data))
        if of_training != of_samples:
            names = ", ".join(sorted(of_training)) or "no sources"
            expected = f"{names}, as in config.data"
            raise UserError("eval.data", expected, type(self.data).__name__)
        self.search.check("eval.search", prompts.tokenizer.vocab())
        self.search.for_run("eval.search", model, objective)

    def start(self, context: Context) -> Evaluate:
        model = context.model
        form = prompts_for(self.data, f"config.evals.{context.name}.data")
        search = self.search.for_run(f"config.evals.{context.name}.search", model, context.objective)
        search = dataclasses.replace(search, end=search.end or form.end)
        (window,) = self.data.spec()["tokens"].shape
        where = f"config.evals.{context.name}.prompts"
        batches = [model_inputs(model, form.inputs([prompt] * self.texts, where)) for prompt in self.prompts]

        def write(variables: PyTree, prompt: tuple[Inputs, jax.Array]) -> jax.Array:
            inputs, number = prompt
            key = jax.random.fold_in(jax.random.key(context.seed), number)
            generator = generator_for(model, variables, inputs, window)
            return search(generator, variables, inputs, self.length, key)

        program = backend.jit(write, out_shardings=context.whole)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            parts = []
            for i, (prompt, inputs) in enumerate(zip(self.prompts, batches, strict=True)):
                put = context.put((inputs, np.int32(i)))
                for j, row in enumerate(jax.device_get(program(variables, put))):
                    text = form.text(prompt, until(row, search.end))
                    parts.append(f"{heading(i, j)}\n{form.text_before(prompt)}{text}\n")
            context.write("samples", step, "txt", "\n".join(parts).encode())
            return {}

        return evaluate


def heading(prompt: int, text: int) -> str:
    """The line above a text in the file."""
    return f"----- prompt {prompt + 1}, text {text + 1} -----"
