"""Span corruption: an encoder reads text from which spans are cut out, and a decoder predicts the spans."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.objectives.base import Objective, apply_model, example_keys
from txjax.objectives.data_checks import check_special_tokens
from txjax.objectives.losses import CrossEntropy
from txjax.objectives.next_token import check_logits
from txjax.types import Batch, ObjectiveOutput, PyTree, config_field


@dataclasses.dataclass
class SpanCorruption(Objective):
    """The loss of T5 (Raffel et al. 2020, 3.1.4): cross entropy in nats a target token, and the accuracy.

    A row is one text: as in the paper, whose rows run through the ends of documents, the data have no `segments`. The n
    tokens of a row that have weight come first. round(rate * n) of them are cut out, in round(rate * n / mean_span)
    spans drawn uniformly. The source is the text with the i-th span replaced by the i-th sentinel; the target is every
    span after its sentinel. Both end with `end_id`.

    The model is called with `source_tokens`, `source_segments`, `tokens` (the target after `start_id`) and `segments`.

    Attributes:
      sentinel_id: id of the first sentinel; the i-th is `sentinel_id` - i, as in T5's vocabulary (32099 downwards). All
        must be special tokens of the data's tokenizer.
      end_id: the last token of a source and of a target; a special token.
      start_id: the decoder's first input; a special token.
      rate: fraction of the tokens that are cut out.
      mean_span: the mean length of a span.
      loss: the cross entropy of the target's tokens, and the terms that training adds to it.
    """

    sentinel_id: int = config_field(at_least=0)
    end_id: int = config_field(1, at_least=0)
    start_id: int = config_field(0, at_least=0)
    rate: float = config_field(0.15, above=0, below=1)
    mean_span: float = config_field(3.0, at_least=1)
    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    models: ClassVar[str] = "EncoderDecoder"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "tokens", "weights")

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        check_logits(model, output, self)

    def counts(self, length: int) -> tuple[Int[np.ndarray, "N"], Int[np.ndarray, "N"]]:
        """How many tokens are cut out of n = 0, 1, ... `length` tokens, and in how many spans.

        Raises:
          UserError: there are fewer sentinels than spans.
        """
        tokens = np.arange(length + 1)
        cut = np.minimum(np.maximum(np.round(self.rate * tokens), 1), np.maximum(tokens - 1, 0)).astype(np.int32)
        spans = np.maximum(np.round(cut / self.mean_span), 1).astype(np.int32)
        spans = np.minimum(spans, np.minimum(cut, tokens - cut)).astype(np.int32)
        if (most := int(spans.max())) > self.sentinel_id + 1:
            expected = f"at least {most - 1}: {length} tokens have {most} spans, each with a sentinel"
            raise UserError("objective.sentinel_id", expected, self.sentinel_id)
        return cut, spans

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        if "segments" in data.spec():
            hint = "TextWindows(boundaries=False) runs through the ends of documents"
            raise UserError("config.data", "rows of one text each, without segments", type(data).__name__, hint=hint)
        (length,) = data.spec()["tokens"].shape
        sentinels = self.sentinels(length)
        for name in ("sentinel_id", "end_id", "start_id"):
            field = f"objective.{name}"
            number = getattr(self, name)
            for table in ("vocab", "source_vocab"):
                if (size := getattr(model, table, None)) is not None and number >= size:
                    raise UserError(field, f"below config.model.{table} = {size}", number)
            if name == "sentinel_id":
                needed = f"{len(sentinels)} special tokens from it downwards, one for each span of {length} tokens"
                check_special_tokens(field, sentinels, data, needed)
            elif number in sentinels:
                expected = f"none of the {len(sentinels)} sentinels, {sentinels[-1]} to {sentinels[0]}"
                raise UserError(field, expected, number)
            else:
                check_special_tokens(field, [number], data, "a special token")

    def sentinels(self, length: int) -> range:
        """The ids of all sentinels that `length` tokens may need, the first one first."""
        _, spans = self.counts(length)
        return range(self.sentinel_id, self.sentinel_id - int(spans.max()), -1)

    def lengths(self, length: int) -> tuple[int, int]:
        """The lengths of source and target of `length` tokens; those of fewer tokens are padded."""
        cut, spans = self.counts(length)
        kept = np.arange(length + 1) - cut
        return int((kept + spans).max()) + 1, int((cut + spans).max()) + 1

    def inputs(self, model: Any, batch: Batch) -> dict[str, Any]:
        """The beginning of the text as source and as target, of their lengths."""
        tokens = batch["tokens"]
        segments = (batch["weights"] > 0).astype(jnp.int32)
        source, target = (
            [jnp.pad(x, ((0, 0), (0, max(0, size - x.shape[1]))))[:, :size] for x in (tokens, segments)]
            for size in self.lengths(tokens.shape[1])
        )
        return dict(zip(("source_tokens", "source_segments", "tokens", "segments"), [*source, *target], strict=True))

    def corrupt(
        self, key: jax.Array, tokens: Int[Array, "L"], weights: Float[Array, "L"]
    ) -> tuple[Int[Array, "S"], Bool[Array, "S"], Int[Array, "T"], Bool[Array, "T"]]:
        """One example's source and target, and which of their tokens are not padding. S and T depend on L alone."""
        length = len(tokens)
        at = jnp.arange(len(tokens), dtype=jnp.int32)
        cut_of, spans_of = self.counts(length)
        most = int(spans_of.max())
        longest, size = self.lengths(length)
        count = (weights > 0).sum()
        cut = jnp.asarray(cut_of)[count]
        spans = jnp.asarray(spans_of)[count]

        kept_key, cut_key = jax.random.split(key)
        part = functools.partial(composition, length=length, most=most)
        kept_parts = part(kept_key, count - cut, spans)
        cut_parts = part(cut_key, cut, spans)
        number = jnp.arange(most, dtype=jnp.int32)
        starts = jnp.where(number < spans, jnp.cumsum(kept_parts) + jnp.cumsum(cut_parts) - cut_parts, length)

        span = jnp.searchsorted(starts, at, side="right").astype(jnp.int32) - 1  # the last one that starts before
        hidden = (span >= 0) & (at < (starts + cut_parts)[span]) & (at < count)
        first = hidden & (at == starts[span])
        stays = (at < count) & (~hidden | first)
        order = jnp.pad(jnp.argsort(~stays, stable=True), (0, 1))[:longest]
        source = jnp.where(first, self.sentinel_id - span, tokens)[order].at[stays.sum()].set(self.end_id)

        place = jnp.where(hidden, jnp.cumsum(hidden, dtype=jnp.int32) + span, size)
        sentinel = jnp.where(number < spans, jnp.cumsum(cut_parts) - cut_parts + number, size)
        target = jnp.zeros(size, jnp.int32).at[place].set(tokens, mode="drop")
        target = target.at[sentinel].set(self.sentinel_id - number, mode="drop").at[cut + spans].set(self.end_id)
        source_mask, target_mask = (jnp.arange(n) <= last for n, last in ((longest, stays.sum()), (size, cut + spans)))
        return source, source_mask & (count > 0), target, target_mask & (count > 0)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        corrupt = jax.vmap(self.corrupt)
        source, source_mask, target, target_mask = corrupt(example_keys(key, batch), batch["tokens"], batch["weights"])
        shifted = jnp.pad(target, ((0, 0), (1, 0)), constant_values=self.start_id)[:, :-1]
        inputs = {"source_tokens": source, "source_segments": source_mask.astype(jnp.int32)}
        inputs |= {"tokens": shifted, "segments": target_mask.astype(jnp.int32)}
        logits, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, logits, batch)
        losses, metrics = self.loss("span_corruption", logits, target, target_mask.astype(jnp.float32), train)
        return aux.outcome(losses, metrics)


def composition(
    key: jax.Array, items: Int[Array, ""], parts: Int[Array, ""], length: int, most: int
) -> Int[Array, "P"]:
    """`items` as a sum of `parts` positive numbers, drawn uniformly over all ways; zeros follow.

    Args:
      length, most: upper bounds of `items` and `parts`.
    """
    at = jnp.arange(length, dtype=jnp.int32)
    draws = jnp.where(at < items - 1, jax.random.uniform(key, (length,)), 2.0)
    chosen = jnp.argsort(jnp.argsort(draws)) < parts - 1  # a part ends after these items
    part = jnp.cumsum(chosen, dtype=jnp.int32) - chosen
    return jnp.zeros(most, jnp.int32).at[jnp.where(at < items, part, most)].add(1, mode="drop")
