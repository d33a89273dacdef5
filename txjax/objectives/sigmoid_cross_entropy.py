"""Cross entropy of each class by itself, for examples of several classes or of none."""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from txjax.objectives.losses import Sums
from txjax.types import Mean


@dataclasses.dataclass
class SigmoidCrossEntropy:
    """The cross entropy of yes and no, with p(yes) = sigmoid(logit), in nats, in the mean over the classes.

    The loss of AudioSet in Gong et al. 2021, and of ImageNet in Wightman et al. 2021 (arXiv:2110.00476).
    """

    label_keys: ClassVar[str] = "labels | label"

    def __call__(
        self,
        name: str,
        logits: Float[Array, "B C"],
        targets: Float[Array, "B C"] | Int[Array, "B"],
        weights: Float[Array, "B"],
        train: bool,
        mixed: tuple[Int[Array, "B"], Float[Array, "B"]] | None = None,
    ) -> Sums:
        """The loss as the term `name`, and the metric `accuracy`: the share of the likeliest class in the targets.

        Args:
          targets: the share of each class in each example, from 0 to 1; or the one class of each.
          mixed: a second class of each example, and the share of the first one.
        """
        logits = logits.astype(jnp.float32)
        shares = targets.astype(jnp.float32) if targets.ndim == 2 else jax.nn.one_hot(targets, logits.shape[1])
        if mixed is not None:
            other, share = mixed
            shares = share[:, None] * shares + (1 - share)[:, None] * jax.nn.one_hot(other, logits.shape[1])
        loss = optax.sigmoid_binary_cross_entropy(logits, shares).mean(1)
        right = jnp.take_along_axis(shares, logits.argmax(1)[:, None], axis=1)[:, 0]
        return {name: Mean.of(loss, weights)}, {"accuracy": Mean.of(right, weights)}
