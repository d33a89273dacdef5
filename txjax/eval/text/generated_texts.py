"""Texts that an encoder-decoder generates, compared with the target texts of the data."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from txjax.data import Dataset, Pairs, Utterances
from txjax.data.keys import SOURCES
from txjax.decoding import Beam, Search, Sources, SpokenPrompts, generator_for, prompts_for, until
from txjax.errors import UserError
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, ID, Rows, digests
from txjax.eval.text.text_metrics import check_metrics, compare, rescore_metrics, statistics
from txjax.objectives import NextToken, Objective, select_keys, source_inputs
from txjax.sharding import constrain
from txjax.types import Batch, PyTree, config_field


@dataclasses.dataclass
class GeneratedTexts(Evaluator):
    """Metrics of all texts that an encoder-decoder generates, such as BLEU, by sacrebleu (Post 2018).

    A text begins after the start token of `data` and ends at its end token, or after `data.length - 1` tokens, the
    longest that a target has. It is written from what the model reads of an example besides the target, decoded, and
    compared with the target as it is in the data set: never cut, and independent of the tokenizer. So runs with other
    tokenizers and windows can be compared.

    Writes the texts below sacrebleu's signatures, in `samples/NAME/STEP.txt` of the workdir and in the report.

    Scores: each of the metrics.

    Attributes:
      data: `Pairs`, or `Utterances` whose tokenizer has a token that ends a text; their buckets cut the sources. One
        program is compiled for each length of these.
      metrics: `bleu`, `chrf` and `ter` of sacrebleu, from 0 to 100; `exact_match`, the share of texts that equal their
        target; `matthews` of texts that are classes, `pearson` and `spearman` of numbers.
      search: how tokens are chosen. If its `end` is (), it is the end token of `data`.
      count: the number of texts in the file. If None, all.
    """

    metrics: tuple[str, ...] = ("bleu", "chrf")
    search: Search = config_field(factory=Beam)
    count: int | None = config_field(None, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return "id", "source_tokens | audio | features", "weights"

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        check_metrics(self.metrics)
        data = self._texts()
        form = prompts_for(data, "eval.data")
        self.search.check("eval.search", form.tokenizer.vocab())
        self.search.for_run("eval.search", model, objective)
        batch = {key: jax.ShapeDtypeStruct((1, *x.shape), x.dtype) for key, x in data.spec().items()}
        if not jax.eval_shape(functools.partial(source_inputs, model), batch):
            suited = {Pairs: "source_tokens, such as EncoderDecoder", Utterances: "features, such as SpeechTransformer"}
            raise UserError("config.model", f"a model with {suited[type(data)]}", type(model).__name__)
        outline(model, NextToken(), data)

    def start(self, context: Context) -> Evaluate:
        data = self._texts()
        source = context.source
        form = prompts_for(data, f"config.evals.{context.name}.data")
        assert isinstance(form, Sources | SpokenPrompts)
        opening = np.array(form.opening, np.int32)  # a constant of the program, which is on the host
        end = self.search.end or form.end
        search = self.search.for_run(f"config.evals.{context.name}.search", context.model, context.objective)
        search = dataclasses.replace(search, end=end)

        def generate(variables: PyTree, batch: Batch) -> PyTree:
            prompts = constrain(jnp.tile(opening, (len(batch["id"]), 1)), "batch", "length")
            inputs = {"tokens": prompts, **source_inputs(context.model, batch)}
            generator = generator_for(context.model, variables, inputs, data.length)
            key = jax.random.fold_in(jax.random.key(context.seed), batch["id"][0])
            tokens = search(generator, variables, inputs, data.length - len(opening), key)
            return tokens, batch["id"], rows_with_source(batch)

        program = context.program(generate)

        def generate_for(variables: PyTree, batch: Batch) -> PyTree:
            """Of the batch without its targets, whose lengths don't matter."""
            return program(variables, select_keys(batch, "id", *SOURCES))

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            ids = []
            outputs = []
            for tokens, numbers, has_source in context.run_batches(generate_for, variables, source, self.max_batches):
                ids += numbers[has_source].tolist()
                outputs += [form.tokenizer.decode(until(row, end)) for row in tokens[has_source]]
            pairs = source.texts(np.array(ids))  # type: ignore[attr-defined]
            targets = [target for _, target in pairs]
            scores, lines = compare(outputs, targets, self.metrics)
            if context.results is not None:
                rows = statistics(outputs, targets, self.metrics)
                context.keep({ID: np.array(ids), GIVEN: digests(targets), **rows})
            context.write("samples", step, "txt", list_texts(lines, pairs, outputs, self.count).encode())
            return scores

        return evaluate

    def rescore(self, rows: Rows) -> dict[str, float]:
        return rescore_metrics(rows, self.metrics)

    def _texts(self) -> Pairs | Utterances:
        if not isinstance(self.data, Pairs | Utterances):
            expected = "Pairs or Utterances, whose targets are texts"
            raise UserError("eval.data", expected, type(self.data).__name__)
        return self.data


def rows_with_source(batch: Batch) -> Bool[Array, "B"]:
    """Which examples of a batch without targets have a source: padding of the batch is zeros."""
    sources = select_keys(batch, *SOURCES).values()
    return functools.reduce(jnp.logical_or, ((x != 0).reshape(len(x), -1).any(1) for x in sources))


def list_texts(
    lines: Sequence[str], pairs: Sequence[tuple[str, str]], outputs: Sequence[str], count: int | None = None
) -> str:
    """The content of the file: a line for each metric, then source, target and output of the first `count` pairs."""
    parts = ["\n".join(lines)]
    for (source, target), output in list(zip(pairs, outputs, strict=True))[:count]:
        parts.append(f"source: {source}\ntarget: {target}\noutput: {output}")
    return "\n\n".join(parts) + "\n"
