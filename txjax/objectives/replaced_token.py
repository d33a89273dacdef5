"""Replaced-token detection: find the tokens that a generator put in place of masked ones."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.errors import UserError
from txjax.nn import Logits
from txjax.objectives.base import apply_model, example_keys
from txjax.objectives.masked_token import MaskedToken
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field


@dataclasses.dataclass
class ReplacedToken(MaskedToken):
    """The losses of ELECTRA (Clark et al. 2020, 3.1) for a generator and a discriminator, such as `models.Electra`.

    Chosen tokens are masked for the generator, whose loss is that of `MaskedToken`. A sample of its predictions takes
    their place for the discriminator, which says of every token whether it was replaced; a sample that is the original
    token counts as original. No gradient goes through the samples. They depend on the step and on the example alone.

    Losses: `masked_token`, nats a chosen token, and `replaced_token`, `weight` times nats a token. Metrics: `accuracy`
    of the generator; `replaced`, the fraction of tokens that were replaced; `replaced_accuracy` of all tokens;
    `replaced_recall` of the replaced ones; `replaced_precision` of those that are taken for replaced; and
    `replaced_auc`, the fraction of the pairs of a replaced and an original token of a text in which the replaced one
    has the higher score (0.5 by chance).

    Attributes:
      mask, random: as in `MaskedToken`; by default of the authors' code.
      weight: of the discriminator's loss.
    """

    mask: float = config_field(0.85, at_least=0, at_most=1, traced=True)
    random: float = config_field(0.0, at_least=0, at_most=1, traced=True)
    weight: float = config_field(50.0, above=0, traced=True)

    arguments: ClassVar[tuple[str, ...]] = ("replace",)
    models: ClassVar[str] = "Electra; MaskedToken() trains one encoder"

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if not isinstance(output, tuple) or len(output) != 3:
            expected = "a model that returns (predicted, seen, scores), for ReplacedToken"
            raise UserError("config.model", expected, type(model).__name__, hint="Electra does")

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        tokens = batch["tokens"]
        weights = batch["weights"]
        masked, positions, chosen = jax.vmap(self.corrupt)(example_keys(key, batch), tokens, weights)
        keys = example_keys(jax.random.fold_in(key, 1), batch)

        def replace(logits: Logits) -> Int[Array, "B L"]:
            scores = jax.lax.stop_gradient(logits.take(positions).dense())
            return jax.vmap(fill)(keys, tokens, positions, chosen, scores)

        inputs = self.inputs(model, batch) | {"tokens": masked, "replace": replace}
        output, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, output, batch)
        predicted, corrupted, scores = output
        targets, chosen_weights = (jnp.take_along_axis(x, positions, axis=1) for x in (tokens, weights))
        losses, metrics = self.loss("masked_token", predicted.take(positions), targets, chosen_weights * chosen, train)
        replaced = corrupted != tokens
        detected_replaced = scores > 0
        detected = Mean.of(jax.nn.softplus(scores) - scores * replaced, weights)
        losses["replaced_token"] = Mean(self.weight * detected.total, detected.count)
        metrics |= {
            "replaced": Mean.of(replaced, weights),
            "replaced_accuracy": Mean.of(detected_replaced == replaced, weights),
            "replaced_recall": Mean.of(detected_replaced, weights * replaced),
            "replaced_precision": Mean.of(replaced, weights * detected_replaced),
            "replaced_auc": pairwise_auc(scores, replaced, weights > 0),
        }
        return aux.outcome(losses, metrics)


def fill(
    key: jax.Array,
    tokens: Int[Array, "L"],
    positions: Int[Array, "P"],
    chosen: Bool[Array, "P"],
    scores: Float[Array, "P V"],
) -> Int[Array, "L"]:
    """One example's tokens, with samples of softmax(scores) at the chosen ones of these positions."""
    samples = jax.random.categorical(key, scores).astype(tokens.dtype)
    return tokens.at[positions].set(jnp.where(chosen, samples, tokens[positions]), unique_indices=True)


def pairwise_auc(scores: Float[Array, "B L"], positive: Bool[Array, "B L"], mask: Bool[Array, "B L"]) -> Mean:
    """Over the pairs of a positive and a negative of a row: whether the positive has the higher score; 0.5 if equal."""
    difference = scores[:, :, None] - scores[:, None, :]
    pairs = (mask & positive)[:, :, None] & (mask & ~positive)[:, None, :]
    return Mean.of((jnp.sign(difference) + 1) / 2, pairs)
