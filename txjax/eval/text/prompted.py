"""In-context learning: which answer a language model continues a prompt with, after a few demonstrations."""

import dataclasses
import inspect
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.data import Dataset, PromptedChoices, Source
from txjax.data.keys import SOURCES
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, check_shapes
from txjax.eval.text.answer_rules import AnswerRule, Likeliest, Likelihoods
from txjax.eval.text.shot_curve import shot_curve
from txjax.nn import Logits
from txjax.objectives import NextToken, Objective, select_keys
from txjax.objectives.losses import cross_entropy
from txjax.types import Batch, PyTree, config_field


@dataclasses.dataclass
class Prompted(Evaluator):
    """Accuracy of a language model on a labelled text, zero-, one- and few-shot (Brown et al. 2020, 2.4).

    After demonstrations and the text, the model gives a likelihood to each of the classes' names; nothing is generated,
    and nothing trained. Records without a label are left out.

    Writes the accuracy over the number of demonstrations, with the standard error over the seeds and the share of the
    most frequent class, to `pictures/NAME/STEP.png` of the workdir.

    Scores: `accuracy_K` for each number K of demonstrations, the mean over the seeds.

    Attributes:
      data: `PromptedChoices`; for an encoder-decoder `PromptedPairs`.
      shots: numbers of demonstrations. 0 has one score, whatever the seeds.
      seeds: of the draws of the demonstrations, one for each record and seed.
      rule: which answer is predicted: `Likeliest`, `PerToken`, `PerByte`, `DomainPMI`, `Contextual`.
    """

    shots: tuple[int, ...] = (0, 1, 4)
    seeds: tuple[int, ...] = (0,)
    rule: AnswerRule = config_field(factory=Likeliest)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("choice_tokens", "choice_segments", "choice_types", "label", "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        data = self._data()
        for name in ("shots", "seeds"):
            numbers = getattr(self, name)
            if not numbers or min(numbers) < 0 or len({*numbers}) < len(numbers):
                raise UserError(f"eval.{name}", "one or more numbers of at least 0, each once", numbers)
        if "targets" not in objective.required_keys:
            raise UserError("eval", "a run that predicts the next token", type(objective).__name__)
        reads = {*SOURCES} & {*inspect.signature(type(model).__call__).parameters}
        if others := sorted(reads - {"source_tokens", "source_segments", "source_positions"}):
            raise UserError("config.model", f"a model of texts alone, which reads no {others[0]}", type(model).__name__)
        sources = bool(reads)
        if sources != ("source_tokens" in data.spec()):
            expected = "PromptedPairs, whose prompts are sources" if sources else "PromptedChoices, without sources"
            raise UserError("eval.data", f"{expected}, for {type(model).__name__}", type(data).__name__)
        if max(self.shots):
            try:
                data.check_demonstrations()
            except UserError as error:
                raise error.with_path("eval.data", "data") from None
        self.rule.check(data)
        check_shapes(model, _Rows(), data)

    def start(self, context: Context) -> Evaluate:
        data = self._data()
        sizes = np.array([[len(name.encode()) for name in data.class_names()]])
        try:
            sources = [
                (shots, (data.prompts(shots, seed), *self.rule.references(data, shots, seed)))
                for shots in self.shots
                for seed in (self.seeds if shots else self.seeds[:1])
            ]
        except UserError as error:
            raise error.with_path(f"config.evals.{context.name}.data", "data") from None
        longest = max(source.longest_answer for _, prompts in sources for source in prompts)

        def answers(variables: PyTree, batch: Batch) -> PyTree:
            return *answer_likelihoods(context.model, variables, batch, longest), batch["label"], batch["weights"]

        program = context.program(answers, longest)

        def read(variables: PyTree, source: Source) -> tuple[Likelihoods, Int[np.ndarray, "N"]]:
            """The likelihoods and the labels of the records with a label."""
            columns = zip(*context.run_batches(program, variables, source, self.max_batches), strict=True)
            nats, tokens, labels, weights = (np.concatenate(column) for column in columns)
            known = weights > 0
            return Likelihoods(nats[known].astype(np.float64), tokens[known], sizes), labels[known]

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            accuracies: dict[int, list[float]] = {shots: [] for shots in self.shots}
            for shots, (prompts, *others) in sources:
                likelihoods, labels = read(variables, prompts)
                guesses = self.rule.scores(likelihoods, [read(variables, other)[0] for other in others]).argmax(-1)
                accuracies[shots].append(float((guesses == labels).mean()))
            context.write(
                "pictures", step, "png", shot_curve(accuracies, float(np.bincount(labels).max() / len(labels)))
            )
            return {f"accuracy_{shots}": float(np.mean(by_seed)) for shots, by_seed in accuracies.items()}

        return evaluate

    def _data(self) -> PromptedChoices:
        if not isinstance(self.data, PromptedChoices):
            raise UserError("eval.data", "PromptedChoices, a labelled text as prompts", type(self.data).__name__)
        return self.data


@dataclasses.dataclass
class _Rows(NextToken):
    """The next tokens in the rows of all choices, [B O L] -> [B*O L], each with the source of its example."""

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        rows = {key: _flat(batch[f"choice_{key}"]) for key in ("tokens", "segments")}
        sources = select_keys(batch, "source_tokens", "source_segments")
        choices = batch["choice_tokens"].shape[1]
        return super().inputs(model, rows | {key: jnp.repeat(x, choices, axis=0) for key, x in sources.items()})


def answer_likelihoods(
    model: Any, variables: PyTree, batch: Batch, longest: int
) -> tuple[Float[Array, "B O"], Int[Array, "B O"]]:
    """log p(answer | prompt) of each choice in nats, float32, and the number of its answer's tokens.

    Args:
      batch: choice_tokens, choice_segments, choice_types [B O L]; the type is 1 in the answer, at the row's end. For an
        encoder-decoder also source_tokens, source_segments [B S].
      longest: the most tokens of an answer; logits are computed for so many positions of a row.
    """
    count, choices, _ = batch["choice_tokens"].shape
    tokens = _flat(batch["choice_tokens"])
    types = _flat(batch["choice_types"])
    logits = Logits.of(model.apply(variables, **_Rows().inputs(model, batch), train=False))
    last = _flat(batch["choice_segments"]).sum(1, keepdims=True) - longest + jnp.arange(longest)[None]
    at = jnp.maximum(last, 1)  # the token at 0 has no prediction
    inside = (jnp.take_along_axis(types, at, 1) > 0) & (last > 0)
    nats = cross_entropy(logits.take(at - 1).dense(), jnp.take_along_axis(tokens, at, 1))
    total = -jnp.where(inside, nats, 0).sum(1)
    return total.reshape(count, choices), inside.sum(1).reshape(count, choices)


def _flat(rows: Int[Array, "B O L"]) -> Int[Array, "B*O L"]:
    return rows.reshape(-1, rows.shape[-1])
