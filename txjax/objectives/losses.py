"""Cross entropy, label smoothing and z-loss."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn import Logits
from txjax.objectives.logit_statistics import logit_statistics
from txjax.types import Mean, config_field, is_on

Sums = tuple[dict[str, Mean], dict[str, Mean]]


def cross_entropy(logits: Float[Array, "*batch V"], targets: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """-log softmax(logits)[target] in nats, float32."""
    logits = logits.astype(jnp.float32)
    return jax.nn.logsumexp(logits, axis=-1) - _target_logits(logits, targets)


def correct(logits: Float[Array, "*batch V"], targets: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
    """1 if the largest logit is the target's, else 0."""
    return (jnp.argmax(logits, -1) == targets).astype(jnp.float32)


def _target_logits(logits: jax.Array, targets: jax.Array) -> jax.Array:
    return jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]


@dataclasses.dataclass
class CrossEntropy:
    """Cross entropy in nats, and the terms that training adds to it.

    The added terms are separate, and exist in training only. So the term with the objective's name is always the plain
    cross entropy, and so is the `loss` of an evaluation; `loss` in training is the sum of all terms, which is
    minimised. With e = label_smoothing, Z = sum(exp(logits)) and p = softmax(logits):

        label_smoothing   e * (-mean(log p) + log p[target])
        z_loss            z_loss * log(Z)^2

    Attributes:
      label_smoothing: e. Added to the cross entropy it gives the cross entropy of the target distribution
        (1 - e) * target + e / V (Szegedy et al. 2016, section 7).
      z_loss: keeps log Z near 0 (Chowdhery et al. 2022, section 5: 1e-4).
      chunk: positions of each row whose logits are computed at a time, so that a large vocabulary's are never
        all in memory; the backward pass recomputes them. If None, all at once.
      dtype: of the logits in training, which are kept for the backward pass. In "bfloat16" they take half the memory,
        and each is rounded to 8 bits, an error of at most 0.2% of it; sums over them are float32 either way. An
        evaluation has float32.
    """

    label_keys: ClassVar[str] = "label"  # where a batch has the classes of examples

    label_smoothing: float = config_field(0.0, at_least=0, below=1, traced=True, off=0)
    z_loss: float = config_field(0.0, at_least=0, traced=True, off=0)
    chunk: int | None = config_field(None, at_least=1)
    dtype: str = config_field("float32", choices=("float32", "bfloat16"))

    def __call__(
        self,
        name: str,
        logits: Logits | Float[Array, "*batch V"],
        targets: Int[Array, "*batch"],
        weights: Float[Array, "*batch"],
        train: bool,
        mixed: tuple[Int[Array, "*batch"], Float[Array, "*batch"]] | None = None,
    ) -> Sums:
        """The losses (the cross entropy as the term `name`, and the added terms), and the metric `accuracy`.

        Args:
          mixed: a second target, and the weight of the first one; the second has the rest (Zhang et al. 2018). Losses
            and accuracy are the means under these weights.
        """
        function = functools.partial(self._parts, name, train)
        dtype = self.dtype if train else "float32"
        parts = Logits.of(logits).reduce(function, targets, *(mixed or ()), chunk=self.chunk, dtype=dtype)
        means = {part: Mean.of(values, weights) for part, values in parts.items()}
        return means, {"accuracy": means.pop("accuracy")}

    def _parts(
        self, name: str, train: bool, logits: jax.Array, targets: jax.Array, other: Any = None, share: Any = None
    ) -> dict[str, jax.Array]:
        """The terms and the accuracy at each position, by name."""

        statistics = logit_statistics(logits, (targets,) if other is None else (targets, other))

        def mix(first: jax.Array, second: jax.Array | None = None) -> jax.Array:
            return first if second is None else share * first + (1 - share) * second

        log_z = statistics.log_z
        chosen = mix(*statistics.chosen)
        right = (statistics.best == target for target in (targets, other) if target is not None)
        parts = {name: log_z - chosen, "accuracy": mix(*(hit.astype(jnp.float32) for hit in right))}
        if train and is_on(self.label_smoothing):
            parts["label_smoothing"] = self.label_smoothing * (chosen - logits.mean(-1, dtype=jnp.float32))
        if train and is_on(self.z_loss):
            parts["z_loss"] = self.z_loss * jnp.square(log_z)
        return parts
