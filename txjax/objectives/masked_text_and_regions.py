"""Pretraining on pairs of an image and a text: masked tokens, masked regions, and whether the two belong together."""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from txjax.errors import UserError
from txjax.objectives.base import apply_model, example_keys
from txjax.objectives.masked_token import MaskedToken
from txjax.objectives.region_targets import RegionFeatures, RegionTarget
from txjax.types import Batch, Mean, ObjectiveOutput, PyTree, config_field


@dataclasses.dataclass
class MaskedTextAndRegions(MaskedToken):
    """ViLBERT's two tasks (Lu et al. 2019, 3.2): to fill in what is masked in both streams, and to compare them.

    Tokens are masked as in `MaskedToken`. Each region but the first, which is the whole image, is chosen with
    probability `region_rate`; the features of a chosen one are zeros with probability `region_mask`, else unchanged. If
    the batch has `next_sentence`, that is whether image and text belong together, and pairs that don't have neither
    loss of masked parts, as in the authors' code.

    Attributes:
      region_rate: the probability that a region is chosen.
      region_mask: the probability that the features of a chosen region are zeros.
      region: what is predicted of a chosen region: `RegionClasses` of a detector, as in the paper; `RegionFeatures`.
    """

    region_rate: float = config_field(0.15, above=0, at_most=1, traced=True)
    region_mask: float = config_field(0.9, at_least=0, at_most=1, traced=True)
    region: RegionTarget = config_field(factory=RegionFeatures)

    models: ClassVar[str] = "ViLBERT"
    members: ClassVar[tuple[str, ...]] = ("regions",)
    arguments: ClassVar[tuple[str, ...]] = ("hidden_regions",)

    @property
    def required_keys(self) -> tuple[str, ...]:  # type: ignore[override]
        return "id", "tokens", "weights", *self.region.keys

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if not isinstance(output, tuple) or len(output) != 3:
            expected = f"a model that predicts masked tokens and regions, for {type(self).__name__}"
            raise UserError("config.model", expected, type(model).__name__, hint="its head must be MaskedPairs(...)")
        if "next_sentence" in batch and output[1] is None:
            hint = "the data has pairs of an image and a text"
            raise UserError("config.model.head.text.next_sentence", "NextSentence(ProductPooler(...))", None, hint=hint)
        features = jax.eval_shape(lambda: model.regions.read(self.inputs(model, batch)).features)
        targets = jax.eval_shape(lambda: self.region.targets(batch, jnp.zeros(features.shape)))
        if output[2].shape != targets.shape:
            expected = f"{targets.shape[2]}, for {type(self.region).__name__} of {targets.shape[1]} regions"
            got = f"{output[2].shape[2]}, for {output[2].shape[1]} regions"
            raise UserError("config.model.head.regions.size", expected, got)

    def __call__(self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool) -> ObjectiveOutput:
        corrupted = self.corrupt_batch(batch, key)
        inputs = self.inputs(model, batch)
        regions = model.regions.read(inputs)
        keys = example_keys(jax.random.fold_in(key, 1), batch)
        chosen, hidden = self.choose_regions(keys, regions.features.shape[1])
        inputs |= {"tokens": corrupted.tokens, "hidden_regions": hidden}
        output, aux = apply_model(model, variables, inputs, batch, key, train)
        self.check_output(model, output, batch)
        logits, pair_logits, region_outputs = output
        matched = batch["next_sentence"] != 0 if "next_sentence" in batch else jnp.ones(len(hidden), bool)
        token_weights = batch["weights"] * matched[:, None]
        losses, metrics = self.text_terms(logits, pair_logits, batch, corrupted, token_weights, train)
        targets = self.region.targets(batch, regions.features)
        weights = chosen * (token_weights.max(-1) > 0)[:, None]
        if regions.segments is not None:
            weights = weights * (regions.segments > 0)
        losses["masked_region"] = Mean.of(self.region.error(region_outputs, targets), weights)
        return aux.outcome(losses, metrics)

    def choose_regions(self, keys: jax.Array, count: int) -> tuple[Bool[Array, "B R"], Bool[Array, "B R"]]:
        """Which of so many regions of each example are chosen, and which of these are zeros."""
        choose, act = jnp.moveaxis(jax.vmap(lambda key: jax.random.uniform(key, (2, count)))(keys), 1, 0)
        chosen = (choose < self.region_rate) & (jnp.arange(count) > 0)[None]
        return chosen, chosen & (act < self.region_mask)
