"""Contrastive losses: the image of a pair is like its own text, and unlike the others' of the batch."""

import abc
import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from txjax.errors import UserError
from txjax.nn import PairFeatures
from txjax.objectives.base import AuxOutputs, apply_model
from txjax.objectives.comparing import ComparingObjective, Rows, row_digests
from txjax.types import Batch, PyTree

_Leaf = Any  # an array, or what stands for one in a tree of shapes
_EXCLUDED = -1e30  # the logit of a pair that is not compared


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WeightedPairs:
    """The pairs of a batch.

    Attributes:
      features: of the images and texts.
      weights: float32 [B], 0 for what is no example.
      text: uint32 [B], equal for equal texts.
    """

    features: PairFeatures
    weights: _Leaf
    text: _Leaf


class Contrastive(ComparingObjective):
    """Base of the contrastive losses of pairs of an image and a text (`image`, `tokens`), over the whole batch.

    The images and texts of all devices and microbatches are compared. Metrics: `accuracy`, the share of images whose
    text is the nearest of the batch, `text_accuracy`, the same of texts, and `twins`, the share of pairs whose text is
    also the text of another pair: the loss takes these for different.
    """

    required_keys: ClassVar[tuple[str, ...]] = ("id", "image", "tokens", "weights")
    models: ClassVar[str] = "TwoTowers"

    def check_output(self, model: Any, output: Any, batch: Batch) -> None:
        if not isinstance(output, PairFeatures):
            expected = f"a model that returns PairFeatures, for {type(self).__name__}"
            raise UserError("config.model", expected, type(model).__name__, hint="it suits models such as TwoTowers")

    def encode(
        self, model: Any, variables: PyTree, batch: Batch, key: jax.Array, train: bool
    ) -> tuple[WeightedPairs, AuxOutputs]:
        features, aux = apply_model(model, variables, self.inputs(model, batch), batch, key, train)
        self.check_output(model, features, batch)
        weights = batch["weights"].reshape(len(batch["id"]), -1).max(1)
        return WeightedPairs(features, weights, row_digests(batch["tokens"])), aux

    def compare(self, features: WeightedPairs) -> tuple[Rows, Rows, Float[Array, "B"]]:
        counted = features.weights > 0
        logits = features.features.logits()
        compared = counted[:, None] & counted[None]
        masked = jnp.where(compared, logits, _EXCLUDED)
        numbers = jnp.arange(len(logits))
        metrics = {
            "accuracy": masked.argmax(1) == numbers,
            "text_accuracy": masked.argmax(0) == numbers,
            "twins": ((features.text[:, None] == features.text[None]) & compared).sum(1) > 1,
        }
        rows = {name: value.astype(jnp.float32) for name, value in metrics.items()}
        return {"contrastive": self.losses(logits, masked, compared)}, rows, features.weights

    @abc.abstractmethod
    def losses(
        self, logits: Float[Array, "B B"], masked: Float[Array, "B B"], compared: Bool[Array, "B B"]
    ) -> Float[Array, "B"]:
        """The loss of each pair, from the logits of each image with each text.

        Args:
          masked: the logits, very small where they are not compared.
          compared: whether both the image and the text have weight.
        """


@dataclasses.dataclass
class SoftmaxContrastive(Contrastive):
    """CLIP's loss (Radford et al. 2021, figure 3): the mean of the cross entropies of a pair's image among all images,
    and of its text among all texts.
    """

    def losses(
        self, logits: Float[Array, "B B"], masked: Float[Array, "B B"], compared: Bool[Array, "B B"]
    ) -> Float[Array, "B"]:
        of_pairs = jnp.diagonal(masked)
        among_texts = jax.nn.logsumexp(masked, axis=1) - of_pairs
        among_images = jax.nn.logsumexp(masked, axis=0) - of_pairs
        return jnp.where(jnp.diagonal(compared), (among_texts + among_images) / 2, 0.0)


@dataclasses.dataclass
class SigmoidContrastive(Contrastive):
    """SigLIP's loss (Zhai et al. 2023, algorithm 1): whether an image and a text are a pair, for all of the batch.

    A pair's loss is the sum over its image with all texts.
    """

    def losses(
        self, logits: Float[Array, "B B"], masked: Float[Array, "B B"], compared: Bool[Array, "B B"]
    ) -> Float[Array, "B"]:
        signs = 2 * jnp.eye(len(logits)) - 1
        return jnp.where(compared, jax.nn.softplus(-signs * logits), 0.0).sum(1)
