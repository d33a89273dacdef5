"""Texts that a decoder generates during training."""

import dataclasses
from typing import Any

import jax
import numpy as np

from txjax import backend
from txjax.data import Dataset
from txjax.decoding import Sampling, Search, generator_for, until
from txjax.eval.evaluator import Context, Evaluate, Evaluator
from txjax.objectives import Objective
from txjax.types import PyTree, UserError, config_field


@dataclasses.dataclass
class Samples(Evaluator):
    """Texts that the model generates, in `samples/NAME/STEP.txt` of the workdir and in the report.

    The random keys are the same at every step, so that only the model changes. Of `data` only the tokenizer is used.

    Scores: none.

    Attributes:
      prompts: the prompts.
      texts: the number of texts per prompt; equal ones if the search draws nothing.
      length: the number of tokens to generate, at most.
      search: how tokens are chosen: `Sampling`, `Beam`.
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
        if "source_tokens" in self.data.spec():
            raise UserError("eval", "a decoder; for encoder-decoders: GeneratedTexts", type(model).__name__)
        tokenizer = getattr(self.data, "tokenizer", None)
        if tokenizer is None:
            raise UserError("eval.data", "text with a tokenizer", type(self.data).__name__)
        if (self.search.end or 0) >= tokenizer.vocab():
            raise UserError("eval.search.end", f"a token below {tokenizer.vocab()}", self.search.end)

    def start(self, context: Context) -> Evaluate:
        model, tokenizer = context.model, self.data.tokenizer  # type: ignore[attr-defined]
        (window,) = self.data.spec()["tokens"].shape
        prompts = [np.asarray(tokenizer.encode(prompt), np.int32) for prompt in self.prompts]
        for prompt, ids in zip(self.prompts, prompts, strict=True):
            if not len(ids):
                raise UserError(f"config.evals.{context.name}.prompts", "at least one token in each", prompt)

        def write(variables: PyTree, prompt: tuple[jax.Array, jax.Array]) -> jax.Array:
            tokens, number = prompt
            key = jax.random.fold_in(jax.random.key(context.seed), number)
            inputs = {"tokens": tokens}
            generator = generator_for(model, variables, inputs, window)
            return self.search(generator, variables, inputs, self.length, key)

        program = backend.jit(write, out_shardings=context.whole)

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            parts = []
            for i, (prompt, ids) in enumerate(zip(self.prompts, prompts, strict=True)):
                given = context.put((np.tile(ids, (self.texts, 1)), np.int32(i)))
                for j, row in enumerate(jax.device_get(program(variables, given))):
                    parts.append(f"{heading(i, j)}\n{prompt}{tokenizer.decode(until(row, self.search.end))}\n")
            context.write("samples", step, "txt", "\n".join(parts).encode())
            return {}

        return evaluate


def heading(prompt: int, text: int) -> str:
    """The line above a text in the file."""
    return f"----- prompt {prompt + 1}, text {text + 1} -----"
