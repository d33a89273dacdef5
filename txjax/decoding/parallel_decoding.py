"""Parallel decoding: all tokens are predicted at once, the surest are kept, and the others are predicted again."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn import MASK_SCHEDULES
from txjax.types import config_field

Predict = Callable[[Int[Array, "B N"]], Float[Array, "B N K"]]


@dataclasses.dataclass
class ParallelDecoding:
    """MaskGIT's iterative decoding (Chang et al. 2022, 3.3), in one loop of `steps` calls of a model.

    In step t = 1, ..., T every unknown token is drawn from its distribution p. Then some of those that the step drew
    are unknown again: floor(share * n) of an image's n unknown ones at the start, share by `schedule` at t / T, at
    least one and not all of them; after the last step none. They have the smallest confidence

        log p[drawn] + temperature * (1 - t / T) * g,    g of a standard Gumbel distribution

    so that at first it is more random which tokens are kept.

    Attributes:
      steps: T, calls of the model.
      temperature: of the choice of what is kept; 4.5 in the authors' code.
      schedule: one of `nn.MASK_SCHEDULES`.
    """

    steps: int = config_field(8, at_least=1)
    temperature: float = config_field(4.5, at_least=0)
    schedule: str = config_field("cosine", choices=tuple(MASK_SCHEDULES))

    def __call__(self, predict: Predict, tokens: Int[Array, "B N"], mask_id: int, keys: jax.Array) -> jax.Array:
        """The tokens int32 [B N] with the unknown ones decoded; known ones stay.

        Args:
          predict: the logits of each token, from tokens of which some are unknown.
          tokens: `mask_id` where they are unknown.
          keys: [B], one for each image, which no other image's draws depend on.
        """
        unknown = (tokens == mask_id).sum(-1)

        def step(tokens: jax.Array, number: jax.Array) -> tuple[jax.Array, None]:
            logits = predict(tokens).astype(jnp.float32)
            of_token, of_choice = noise(keys, number, logits.shape[1:])
            masked = tokens == mask_id
            tokens = jnp.where(masked, (logits + of_token).argmax(-1).astype(tokens.dtype), tokens)
            time = number / self.steps
            chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[..., None], -1)[..., 0]
            confidence = chosen + self.temperature * (1 - time) * of_choice
            again = jnp.floor(MASK_SCHEDULES[self.schedule](time) * unknown)
            again = jnp.where(number < self.steps, jnp.clip(again, 1, masked.sum(-1) - 1), 0)
            ranks = jnp.argsort(jnp.argsort(jnp.where(masked, confidence, jnp.inf), -1), -1)
            return jnp.where(ranks < again[:, None], mask_id, tokens), None

        return jax.lax.scan(step, tokens, jnp.arange(1, self.steps + 1))[0]


def noise(
    keys: jax.Array, number: jax.Array, shape: tuple[int, ...]
) -> tuple[Float[Array, "B N K"], Float[Array, "B N"]]:
    """The Gumbel noise of a step's tokens, of shape (N, K) for each image, and of its choice of those that are kept."""

    def of_one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        tokens, choice = jax.random.split(jax.random.fold_in(key, number))
        return jax.random.gumbel(tokens, shape), jax.random.gumbel(choice, shape[:1])

    return jax.vmap(of_one)(keys)
