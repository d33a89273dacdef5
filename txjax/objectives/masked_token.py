"""Masked language modelling: predict the masked tokens."""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.data import Dataset
from txjax.errors import UserError
from txjax.nn import Logits
from txjax.objectives.base import Objective, apply_model, example_keys
from txjax.objectives.data_checks import check_special_tokens
from txjax.objectives.losses import CrossEntropy, Sums, correct, cross_entropy
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field


@dataclasses.dataclass
class MaskedToken(Objective):
    """The masked-token loss of BERT (Devlin et al. 2019, 3.1), and its next-sentence loss if the batch has pairs.

    Of each example's tokens with weight, round(rate * count) are chosen (at least one), uniformly and without
    replacement. A chosen token becomes `mask_id` with probability `mask`, a random token with probability `random`,
    and is unchanged otherwise. The loss is the cross entropy in nats a chosen token. Examples whose `next_sentence` is
    negative have no such loss.

    Attributes:
      mask_id: id of the mask token: a special token of the data's tokenizer, or an id that it doesn't have.
      vocab: random tokens are drawn from [0, vocab).
      rate: fraction of the tokens that are chosen.
      mask, random: probabilities that a chosen token is masked, or replaced by a random one.
      loss: the cross entropy of the chosen tokens, and the terms that training adds to it.
    """

    mask_id: int = config_field(at_least=0)
    vocab: int = config_field(at_least=1)
    rate: float = config_field(0.15, above=0, at_most=1)
    mask: float = config_field(0.8, at_least=0, at_most=1, traced=True)
    random: float = config_field(0.1, at_least=0, at_most=1, traced=True)
    loss: CrossEntropy = dataclasses.field(default_factory=CrossEntropy)

    models: ClassVar[str] = "Bert"
    required_keys: ClassVar[tuple[str, ...]] = ("id", "tokens", "weights")

    def check(self, model: Any, data: Dataset) -> None:
        super().check(model, data)
        known = getattr(model, "vocab", None)
        for field, least in {"mask_id": self.mask_id + 1, "vocab": self.vocab}.items():
            if known is not None and known < least:
                raise UserError(f"objective.{field}", f"ids below config.model.vocab = {known}", getattr(self, field))
        if self.mask_id < (data.vocab() or 0):
            check_special_tokens("objective.mask_id", [self.mask_id], data, "the id of a special token")

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        check_masked(model, output, self, "its head must be MaskedTokens(); ReplacedToken() trains Electra")
        if "next_sentence" in batch and output[1] is None:
            hint = "the data has pairs of sentences"
            raise UserError("config.model.head.next_sentence", "NextSentence()", None, hint=hint)

    def corrupt(
        self, key: jax.Array, tokens: Int[Array, "L"], weights: Float[Array, "L"]
    ) -> tuple[Int[Array, "L"], Int[Array, "P"], Bool[Array, "P"]]:
        """One example's tokens with the chosen ones replaced.

        Returns:
          The tokens; positions, which include all chosen ones; and which of these positions are chosen.
        """
        choose, act, replace = jax.random.split(key, 3)
        mask = weights > 0
        count = jnp.maximum(1, jnp.round(self.rate * mask.sum())).astype(jnp.int32)
        most = max(1, math.ceil(self.rate * len(tokens)))  # never below `count`, however either is rounded
        positions = jnp.argsort(jnp.where(mask, jax.random.uniform(choose, tokens.shape), 2.0))[:most].astype(jnp.int32)
        chosen = (jnp.arange(most) < count) & mask[positions]
        action = jax.random.uniform(act, tokens.shape)
        other = jax.random.randint(replace, tokens.shape, 0, self.vocab, tokens.dtype)
        hidden = jnp.where(action < self.mask, self.mask_id, jnp.where(action < self.mask + self.random, other, tokens))
        hidden = jnp.where(chosen, hidden[positions], tokens[positions])
        return tokens.at[positions].set(hidden, unique_indices=True), positions, chosen

    def corrupt_batch(self, batch: Batch, key: jax.Array) -> "CorruptedTokens":
        """The tokens of a batch with the chosen ones replaced. `key`: of the step."""
        return CorruptedTokens(*jax.vmap(self.corrupt)(example_keys(key, batch), batch["tokens"], batch["weights"]))

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        corrupted = self.corrupt_batch(batch, key)
        inputs = self.inputs(model, batch) | {"tokens": corrupted.tokens}
        output, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, output, batch)
        logits, pair_logits = output
        return aux.outcome(*self.text_terms(logits, pair_logits, batch, corrupted, batch["weights"], train))

    def text_terms(
        self,
        logits: Any,
        pair_logits: Any,
        batch: Batch,
        corrupted: "CorruptedTokens",
        weights: Float[Array, "B L"],
        train: bool,
    ) -> Sums:
        """The losses and metrics of the chosen tokens, and of pairs if the batch has them.

        Args:
          logits, pair_logits: of the tokens, and of pairs (or None).
          weights: of the losses of tokens.
        """
        # Logits of the chosen positions only: one in seven at BERT's rate.
        targets, weights = (jnp.take_along_axis(x, corrupted.positions, axis=1) for x in (batch["tokens"], weights))
        logits = Logits.of(logits).take(corrupted.positions)
        losses, metrics = self.loss("masked_token", logits, targets, weights * corrupted.chosen, train)
        if "next_sentence" in batch:
            follows = batch["next_sentence"]
            known = batch["next_sentence"] >= 0
            weighted = known & (batch["weights"].max(-1) > 0)
            follows = follows * known
            losses["next_sentence"] = Mean.of(cross_entropy(pair_logits, follows), weighted)
            metrics["next_sentence_accuracy"] = Mean.of(correct(pair_logits, follows), weighted)
        return losses, metrics


class CorruptedTokens(NamedTuple):
    """The tokens of a batch of which some are replaced.

    Attributes:
      tokens: with the replaced ones.
      positions: which include all chosen ones.
      chosen: which of these positions are chosen.
    """

    tokens: Int[Array, "B L"]
    positions: Int[Array, "B P"]
    chosen: Bool[Array, "B P"]


def check_masked(model: Any, output: Any, objective: Objective, hint: str) -> None:
    """Raises UserError unless a model's output is that of a head of masked tokens: their logits, and those of pairs."""
    if not isinstance(output, tuple) or len(output) != 2:
        expected = f"a model that predicts masked tokens, for {type(objective).__name__}"
        raise UserError("config.model", expected, type(model).__name__, hint=hint)
