"""Texts that an encoder-decoder generates, compared with the target texts of the data."""

import dataclasses
import inspect
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.data import Dataset, Pairs
from txjax.decoding import Beam, Search, generator_for, until
from txjax.eval.evaluator import Context, Evaluate, Evaluator, outline
from txjax.eval.results import GIVEN, ID, Rows, digests
from txjax.eval.text.text_metrics import check_metrics, compare, rescore_metrics, statistics
from txjax.objectives import NextToken, Objective
from txjax.sharding import constrain
from txjax.types import Batch, PyTree, UserError, config_field

SOURCE = ("source_tokens", "source_segments")


@dataclasses.dataclass
class GeneratedTexts(Evaluator):
    """Metrics of all texts that an encoder-decoder generates, such as BLEU, by sacrebleu (Post 2018).

    A text begins after the start token of `data` and ends at its end token, or after `data.length - 1` tokens, the
    longest that a target has. It is decoded and compared with the target as it is in the data set: never cut, and
    independent of the tokenizer. So runs with other tokenizers and windows can be compared.

    Writes the texts below sacrebleu's signatures, in `samples/NAME/STEP.txt` of the workdir and in the report.

    Scores: each of the metrics.

    Attributes:
      data: `Pairs`; their buckets cut the sources. One program is compiled for each length of these.
      metrics: `bleu`, `chrf` and `ter` of sacrebleu, from 0 to 100; `exact_match`, the share of texts that equal their
        target; `matthews` of texts that are classes, `pearson` and `spearman` of numbers.
      search: how tokens are chosen. If its `end` is (), it is the end token of `data`.
      count: the number of texts in the file. If None, all.
    """

    metrics: tuple[str, ...] = ("bleu", "chrf")
    search: Search = config_field(factory=Beam)
    count: int | None = config_field(None, at_least=1)

    def required_keys(self, objective: Objective) -> tuple[str, ...]:
        return ("id", *SOURCE, "weights")

    def check(self, model: Any, objective: Objective, train: Dataset) -> None:
        check_metrics(self.metrics)
        data = self._pairs()
        self.search.check("eval.search", data.tokenizer.vocab())
        if "source_tokens" not in inspect.signature(type(model).__call__).parameters:
            raise UserError("config.model", "a model with source_tokens, such as EncoderDecoder", type(model).__name__)
        outline(model, NextToken(), data)

    def start(self, context: Context) -> Evaluate:
        data = self._pairs()
        source = context.source
        tokenizer = data.tokenizer
        first = tokenizer.special(data.start)
        end = self.search.end or (tokenizer.special(data.end),)
        search = dataclasses.replace(self.search, end=end)

        def generate(variables: PyTree, batch: Batch) -> PyTree:
            prompts = constrain(jnp.full((len(batch["id"]), 1), first, jnp.int32), "batch", "length")
            inputs = {"tokens": prompts, **{key: batch[key] for key in SOURCE}}
            generator = generator_for(context.model, variables, inputs, data.length)
            key = jax.random.fold_in(jax.random.key(context.seed), batch["id"][0])
            tokens = search(generator, variables, inputs, data.length - 1, key)
            return tokens, batch["id"], batch["source_segments"].any(1)

        program = context.program(generate)

        def generate_for(variables: PyTree, batch: Batch) -> PyTree:
            """Of the batch without its targets, whose lengths don't matter."""
            return program(variables, {key: batch[key] for key in ("id", *SOURCE)})

        def evaluate(variables: PyTree, step: int) -> dict[str, float]:
            ids = []
            outputs = []
            for tokens, numbers, has_source in context.run_batches(generate_for, variables, source, self.max_batches):
                ids += numbers[has_source].tolist()
                outputs += [tokenizer.decode(until(row, end)) for row in tokens[has_source]]
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

    def _pairs(self) -> Pairs:
        if not isinstance(self.data, Pairs):
            raise UserError("eval.data", "Pairs, whose targets are texts", type(self.data).__name__)
        return self.data


def list_texts(
    lines: Sequence[str], pairs: Sequence[tuple[str, str]], outputs: Sequence[str], count: int | None = None
) -> str:
    """The content of the file: a line for each metric, then source, target and output of the first `count` pairs."""
    parts = ["\n".join(lines)]
    for (source, target), output in list(zip(pairs, outputs, strict=True))[:count]:
        parts.append(f"source: {source}\ntarget: {target}\noutput: {output}")
    return "\n\n".join(parts) + "\n"
