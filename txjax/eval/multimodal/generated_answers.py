"""Answers about images that a decoder writes, compared with the right ones; the same with other images."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Conversations, Dataset, Source, Turn
from txjax.decoding import Sampling, Search, generator_for, until
from txjax.decoding.pictured_prompts import PicturedPrompts
from txjax.errors import UserError
from txjax.eval.bootstrap_intervals import intervals
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.multimodal.answer_metrics import METRICS, check_metrics, score_answers
from txjax.eval.multimodal.answer_pictures import ShownAnswer, answer_rows
from txjax.eval.multimodal.answer_table import list_answers
from txjax.eval.multimodal.image_controls import IMAGE_KEYS, BlankImages, ImageControl, ImagesOfOthers
from txjax.eval.pictures import can_show, pixels
from txjax.eval.results import GIVEN, ID, Rows, digests
from txjax.objectives import NextToken, Objective, model_inputs, select_keys
from txjax.types import Batch, PyTree, config_field


def _greedy() -> Sampling:
    return Sampling(temperature=0.0)


@dataclasses.dataclass
class GeneratedAnswers(Evaluator):
    """Exact match and soft accuracy of the answers that a decoder writes, by kind of question, and with other images.

    A model reads a conversation up to its last answer and writes that. Its text, up to the end token of the template,
    is compared with the answer of the set. `controls` ask the same questions with other images; a model that uses
    the images is right less often then. Examples of weight 0 are left out.

    Writes the table of all scores with their 95% intervals, and answers below it, in `samples/NAME/STEP.txt` of the
    workdir and in the report, and draws right and wrong ones beside their images in `pictures/NAME/STEP.png`.

    Scores: METRIC; METRIC_KIND of the questions of each kind; each with the name of a control at the end, too:
    `exact_match`, `exact_match_counting`, `exact_match_shuffled`, `exact_match_counting_shuffled`.

    Attributes:
      data: `Conversations`.
      metrics: `exact_match`; `vqa_accuracy`, min(people who agree / 3, 1) (Antol et al. 2015) where the set has the
        answers of several people, else the exact match.
      controls: the other images: `ImagesOfOthers()`, those of other questions; `BlankImages()`, the mean pixel, which
        leaves the text alone.
      length: tokens of an answer at most.
      search: how tokens are chosen. If its `end` is (), the template's end token ends an answer.
      count: the number of answers in the file. If None, all.
      shown: the images in each row of the picture.
    """

    metrics: tuple[str, ...] = tuple(METRICS)
    controls: tuple[ImageControl, ...] = config_field(factory=lambda: (ImagesOfOthers(), BlankImages()))
    length: int = config_field(16, at_least=1)
    search: Search = config_field(factory=_greedy)
    count: int | None = config_field(100, at_least=1)
    shown: int = config_field(6, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return "id", "tokens", "weights"

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        check_metrics(self.metrics)
        names = [control.name for control in self.controls]
        if len({*names}) < len(names):
            raise UserError("eval.controls", "each control once", names)
        data = self._conversations()
        self.search.check("eval.search", data.tokenizer.vocab())
        self.search.for_run("eval.search", model, objective)
        outline(model, NextToken(), data)

    def start(self, context: Context) -> Evaluate:
        form = PicturedPrompts.of(self._conversations())
        search = self.search.for_run(f"config.evals.{context.name}.search", context.model, context.objective)
        search = dataclasses.replace(search, end=search.end or form.end)

        def answer(variables: PyTree, batch: Batch) -> PyTree:
            inputs = {**cut_prompts(batch), **model_inputs(context.model, select_keys(batch, *IMAGE_KEYS))}
            generator = generator_for(context.model, variables, inputs, batch["tokens"].shape[1])
            key = jax.random.fold_in(jax.random.key(context.seed), batch["id"][0])
            tokens = search(generator, variables, inputs, self.length, key)
            return tokens, batch["id"], begins_answer(batch).sum(1)

        program = context.program(answer)

        def read_answers(variables: PyTree, source: Source) -> dict[int, tuple[int, str]]:
            """Of each example the number of the turn that is answered, from 1, and the text."""
            written = {}
            for tokens, numbers, turns in context.run_batches(program, variables, source, self.max_batches):
                for row, number, turn in zip(tokens, numbers.tolist(), turns.tolist(), strict=True):
                    if turn:
                        written[number] = turn, form.tokenizer.decode(until(row, search.end)).strip()
            return written

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            written = read_answers(variables, context.source)
            turns = [context.source.turns(n)[turn - 1] for n, (turn, _) in written.items()]  # type: ignore[attr-defined]
            outputs = {"": [text for _, text in written.values()]}
            for control in self.controls:
                others = read_answers(variables, control.replace(context.source))  # type: ignore[arg-type]
                outputs[f"_{control.name}"] = [others[number][1] for number in written]
            rows = {ID: np.array([*written], np.int64), GIVEN: digests(turns)}
            for ending, texts in outputs.items():
                rows |= score_answers(texts, turns, self.metrics, ending)
            scores = self.keep_and_rescore(context, rows)
            self._write(context, step, rows, scores, turns, outputs[""])
            self._draw(context, step, rows, turns, outputs[""])
            return scores

        return evaluate

    def _write(
        self,
        context: Context,
        step: int,
        rows: Rows,
        scores: dict[str, float],
        turns: list[Turn],
        outputs: list[str],
    ) -> None:
        """Writes the table and the first answers."""
        endings = ["", *(f"_{control.name}" for control in self.controls)]
        content = list_answers(scores, intervals(self.rescore, rows), endings, turns, outputs, self.count)
        context.write("samples", step, "txt", content.encode())

    def _draw(self, context: Context, step: int, rows: Rows, turns: list[Turn], outputs: list[str]) -> None:
        """Draws the first answers that are wholly right, and the first others, if the images can be shown."""
        if not can_show(self.data) or context.folder is None:
            return
        is_right = rows[self.metrics[0]] == 1
        groups: dict[str, list[ShownAnswer]] = {"right": [], "wrong": []}
        for number, turn, output, right in zip(rows[ID].tolist(), turns, outputs, is_right, strict=True):
            group = groups["right" if right else "wrong"]
            if len(group) < self.shown:
                example = context.source.example(number, 0, np.random.default_rng(0))
                image = example["images"][0] if "images" in example else example["image"]
                group.append(ShownAnswer(pixels(self.data, image), turn, output))
        if answers := {name: group for name, group in groups.items() if group}:
            context.write("pictures", step, "png", answer_rows(answers))

    def _conversations(self) -> Conversations:
        if not isinstance(self.data, Conversations):
            raise UserError("eval.data", "Conversations, questions about images", type(self.data).__name__)
        return self.data


def begins_answer(batch: Batch) -> jax.Array:
    """Which targets begin an answer, bool [B L]: those that are learned after one that isn't."""
    learned = batch["weights"] > 0
    return learned & ~jnp.pad(learned, ((0, 0), (1, 0)))[:, :-1]


def cut_prompts(batch: Batch) -> dict[str, jax.Array]:
    """The tokens of each conversation up to its last answer, padded on the left as `decoding.pad_prompts` does.

    A row without an answer has one token of its own.
    """
    tokens = batch["tokens"]
    column = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
    last = jnp.where(begins_answer(batch), column, 0).max(1, keepdims=True)  # its target is the answer's first token
    positions = column + last - column[:, -1:]
    inside = positions >= 0
    positions = jnp.maximum(positions, 0)
    prompts = jnp.where(inside, jnp.take_along_axis(tokens, positions, axis=1), 0)
    return {"tokens": prompts, "segments": inside.astype(jnp.int32), "positions": positions}
