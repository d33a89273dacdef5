"""Spans of a text: extractive question answering."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.objectives.classification import SingleOutput
from txjax.objectives.losses import cross_entropy
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree

_NEVER = -1e9  # the logit of padding


def best_spans(logits: Float[Array, "B 2 L"]) -> Int[Array, "B 2"]:
    """The first and the last token of the span with the largest sum of both logits; it has at least one token."""
    best_start = jax.lax.cummax(logits[:, 0], axis=1)
    end = jnp.argmax(best_start + logits[:, 1], -1)
    before = jnp.arange(logits.shape[2])[None] <= end[:, None]
    start = jnp.argmax(jnp.where(before, logits[:, 0], -jnp.inf), -1)
    return jnp.stack([start, end], 1).astype(jnp.int32)


@dataclasses.dataclass
class Spans(SingleOutput):
    """Cross entropy of `start` and `end` over a text's tokens, the mean of both in nats (Devlin et al. 2019, 4.2).

    Metrics: `exact_match`, the share of examples whose `best_spans` is right. Padding is never chosen.
    """

    required_keys: ClassVar[tuple[str, ...]] = ("id", "tokens", "start", "end", "weights")
    output: ClassVar[tuple[str, ...]] = ("B", "ends", "L")
    heads: ClassVar[str] = "StartEnd()"
    models: ClassVar[str] = "Bert"

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        logits, aux = self.call(model, variables, batch, key, train)
        logits = logits.astype(jnp.float32)
        if "segments" in batch:
            logits = jnp.where(batch["segments"][:, None] > 0, logits, _NEVER)
        ends = jnp.stack([batch["start"], batch["end"]], 1)
        right = (best_spans(logits) == ends).all(1)
        losses = {"spans": Mean.of(cross_entropy(logits, ends).mean(1), batch["weights"])}
        return aux.outcome(losses, {"exact_match": Mean.of(right, batch["weights"])})
