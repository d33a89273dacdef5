"""A run's model as lm-evaluation-harness calls it: likelihoods of texts, and texts that it generates."""

import dataclasses
import functools
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax import backend, tree
from txjax.data.dataset import Example
from txjax.decoding import Generator, Sampling, generator_for
from txjax.decoding.sampling import CHUNK
from txjax.errors import UserError, near_misses
from txjax.eval.evaluator import Context
from txjax.eval.harness.harness_texts import Ids, Row, Texts
from txjax.nn import Logits
from txjax.objectives.losses import correct, cross_entropy
from txjax.types import Batch, PyTree

POSITIONS = 256  # whose logits are in memory at a time
DRAWING = ("top_k", "top_p", "min_p", "repetition_penalty")  # options of a task that are fields of `Sampling`
OPTIONS = ("until", "max_gen_toks", "do_sample", "temperature", "num_beams", *DRAWING)
SIDES = ("id", "weights", "targets")  # keys of a batch that the model does not read


@dataclasses.dataclass
class Rows:
    """Examples of one shape, a Source."""

    examples: Sequence[Row]
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.examples)

    def example(self, index: int, epoch: int, rng: np.random.Generator) -> Example:
        return self.examples[index]


class HarnessModel:
    """A model with the methods of `lm_eval.api.model.LM`, whose requests are `lm_eval.api.instance.Instance`.

    Every host gets all requests and returns all answers. An answer doesn't depend on the other requests, except for
    what a temperature above 0 draws.

    Attributes:
      context: the evaluator's.
      texts: how the model gets texts.
      variables: the model's, at the step that is evaluated.
      rank, world_size: the harness does not divide the requests; the mesh does.
    """

    rank = 0
    world_size = 1

    def __init__(self, context: Context, texts: Texts):
        self.context = context
        self.texts = texts
        self.variables: PyTree = None
        self.writers: dict[Hashable, Any] = {}
        model = context.model

        def scores(variables: PyTree, batch: Batch) -> PyTree:
            logits = Logits.of(model.apply(variables, **inputs(batch), train=False))
            nats, right = logits.reduce(_nats_and_hits, batch["targets"], chunk=POSITIONS)
            mask = batch["weights"] > 0
            return batch["id"], mask.any(1), -jnp.where(mask, nats, 0).sum(1), jnp.where(mask, right, 1).min(1)

        self.scores = context.program(scores)

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """The log-probability of each continuation in nats, and whether it is the greedy one.

        Args:
          requests: whose `args` are a context and its continuation.
        """
        return self._score_pairs([self.texts.pair(*request.args) for request in requests])

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """The log-probability of each whole text in nats, in windows that predict every token once.

        Args:
          requests: whose `args` are a text.
        """
        windows = [self.texts.windows(*request.args) for request in requests]
        scores = iter(self._score_pairs([pair for parts in windows for pair in parts]))
        return [sum(next(scores)[0] for _ in parts) for parts in windows]

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """The text that continues each context, before the first stop.

        Args:
          requests: whose `args` are a context and the options of generation: `until`, `max_gen_toks` and so on.

        Raises:
          UserError: an option that `Sampling` does not have.
        """
        texts = [""] * len(requests)
        for numbers in group_keys(json.dumps(request.args[1], sort_keys=True) for request in requests):
            contexts = [requests[number].args[0] for number in numbers]
            for number, text in zip(numbers, self._generate_texts(contexts, requests[numbers[0]].args[1]), strict=True):
                texts[number] = text
        return texts

    def _score_pairs(self, pairs: Sequence[tuple[Ids, Ids]]) -> list[tuple[float, bool]]:
        scores: list[tuple[float, bool]] = [(0.0, True)] * len(pairs)
        rows = [self.texts.scored_row(*pair) for pair in pairs]
        for number, (nats, greedy) in self._run_rows(self.scores, rows):
            scores[number] = float(nats), bool(greedy)
        return scores

    def _generate_texts(self, contexts: Sequence[str], options: dict[str, Any]) -> list[str]:
        sampling, stops, count = self._how(options)
        count = min(count, self.texts.longest())
        write = functools.partial(self._write, sampling, stops, count)
        texts = [""] * len(contexts)
        for number, (tokens,) in self._run_rows(write, [self.texts.prompt(context, count) for context in contexts]):
            texts[number] = cut_at_stop(self.texts.text(tokens, sampling.end), stops)
        return texts

    def _how(self, options: dict[str, Any]) -> tuple[Sampling, tuple[str, ...], int]:
        """How a task generates: the search, the texts at which it stops, and the number of tokens at most."""
        from lm_eval.models.utils import normalize_gen_kwargs  # an extra

        arguments: dict[str, Any] = dict(normalize_gen_kwargs(options))
        for name, value in arguments.items():
            if name not in OPTIONS or (name == "num_beams" and value != 1):
                expected = f"a task with the options {', '.join(OPTIONS)} (num_beams 1) of generation"
                raise UserError(f"{self.texts.field}.tasks", expected, f"{name}={value}", near_misses(name, OPTIONS))
        drawing = {name: arguments[name] for name in DRAWING if name in arguments}
        ends = self.texts.ends(arguments["until"])
        sampling = Sampling(temperature=arguments.get("temperature", 0.0), end=ends, **drawing)
        if arguments["do_sample"] and "temperature" not in arguments:
            sampling.temperature = 1.0
        return sampling, tuple(stop for stop in arguments["until"] if stop), arguments["max_gen_toks"]

    def _run_rows(
        self, program: Callable[[PyTree, Batch], PyTree], rows: Sequence[Row]
    ) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
        """The results of a program for each row, with the row's number; rows of one shape share batches.

        Args:
          program: gives (id [B], whether a row is real [B], *results [B ...]).
        """
        for numbers in group_keys(tuple(x.shape for x in row.values()) for row in rows):
            source = Rows([rows[number] for number in numbers])
            for ids, mask, *results in self.context.run_batches(program, self.variables, source):
                for index in np.flatnonzero(mask):
                    yield numbers[ids[index]], tuple(result[index] for result in results)

    def _write(
        self, sampling: Sampling, stops: tuple[str, ...], count: int, variables: PyTree, batch: Batch
    ) -> tuple[np.ndarray, ...]:
        """Generates tokens until all texts of a batch have ended: at the end token, at a stop, or at full length."""
        chunks = -(-count // CHUNK)
        size = -(-count // chunks)  # surplus tokens of the last chunk are dropped
        begin, extend = self._programs(sampling, count, size)
        prompt = inputs(batch)
        progress, ids, mask = begin(variables, batch)
        ids, mask = jax.device_get((ids, mask))
        tokens = np.zeros((len(ids), 0), np.int32)
        for _ in range(chunks):
            progress, more, over = extend(variables, prompt, batch["id"], progress)
            tokens = np.concatenate([tokens, jax.device_get(more)], axis=1)[:, :count]
            over = jax.device_get(over) | ~mask
            if all(
                done or has_stop(self.texts.text(row, sampling.end), stops)
                for done, row in zip(over, tokens, strict=True)
            ):
                break
        return ids, mask, tokens

    def _programs(self, search: Sampling, count: int, size: int) -> tuple[Any, Any]:
        """The programs that read prompts and that generate `size` tokens more."""
        if (key := (tree.identity(search), count)) in self.writers:
            return self.writers[key]
        model = self.context.model
        window = self.texts.window

        def generator(variables: PyTree, prompt: Batch) -> Generator:
            return generator_for(model, variables, prompt, window)

        def begin(variables: PyTree, batch: Batch) -> PyTree:
            prompt = inputs(batch)
            writer = generator(variables, prompt)
            progress = search.start(writer, writer.prepare(variables, prompt), prompt, count)
            return progress, batch["id"], batch["weights"] > 0

        def extend(variables: PyTree, prompt: Batch, ids: jax.Array, progress: Any) -> PyTree:
            writer = generator(variables, prompt)
            draws = jax.random.fold_in(jax.random.key(self.context.seed), ids[0])
            progress, tokens = search.extend(writer, writer.prepare(variables, prompt), progress, size, draws)
            return progress, tokens, progress.over

        shardings = None, self.context.whole, self.context.whole
        self.writers[key] = tuple(backend.jit(program, out_shardings=shardings) for program in (begin, extend))
        return self.writers[key]


def inputs(batch: Batch) -> Batch:
    """What the model reads of a batch."""
    return {name: x for name, x in batch.items() if name not in SIDES}


def group_keys(keys: Any) -> list[list[int]]:
    """The numbers of equal keys, in the order of their first ones."""
    groups: dict[Any, list[int]] = {}
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    return [*groups.values()]


def has_stop(text: str, stops: Sequence[str]) -> bool:
    """Whether a text has a stop."""
    return any(stop in text for stop in stops)


def cut_at_stop(text: str, stops: Sequence[str]) -> str:
    """The text before its first stop."""
    return text[: min((text.index(stop) for stop in stops if stop in text), default=len(text))]


def _nats_and_hits(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
    return cross_entropy(logits, targets), correct(logits, targets)
