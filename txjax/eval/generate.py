"""Text from a decoder: one pass over the prompt fills the cache, then one token at a time."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.models.text.decoder import empty_cache
from txjax.types import PyTree, setting


@dataclasses.dataclass
class Sampling:
    """How the next token is drawn from the logits.

    Attributes:
      temperature: divides the logits; 0 always takes the likeliest token (greedy).
      top_k: only the k likeliest tokens (Fan et al. 2018); None all.
      top_p: only the likeliest tokens that together have this probability (Holtzman et al. 2020).
    """

    temperature: float = setting(1.0, at_least=0)
    top_k: int | None = setting(None, at_least=1)
    top_p: float | None = setting(None, above=0, at_most=1)

    def __call__(self, logits: Float[Array, "B V"], key: jax.Array) -> Int[Array, "B"]:
        """The next token of each row, int32."""
        if self.temperature == 0:
            return logits.argmax(-1).astype(jnp.int32)
        logits = logits / self.temperature
        ranked = jnp.sort(logits, axis=-1)[:, ::-1]
        if self.top_k is not None:
            floor = ranked[:, min(self.top_k, logits.shape[-1]) - 1]
            logits = jnp.where(logits < floor[:, None], -jnp.inf, logits)
            ranked = jnp.where(ranked < floor[:, None], -jnp.inf, ranked)
        if self.top_p is not None:
            chances = jax.nn.softmax(ranked, axis=-1)
            before = jnp.cumsum(chances, axis=-1) - chances
            floor = jnp.where(before < self.top_p, ranked, jnp.inf).min(-1)
            logits = jnp.where(logits < floor[:, None], -jnp.inf, logits)
        return jax.random.categorical(key, logits).astype(jnp.int32)


def generate(
    model: Any, variables: PyTree, prompt: Int[Array, "B P"], length: int, key: jax.Array, sampling: Sampling
) -> Int[Array, "B T"]:
    """`length` tokens after a prompt, int32. Jit it with `length` and `sampling` fixed.

    Raises:
      UserError: the model has no positions for so long a text.
    """
    rows, given = prompt.shape

    def call(cache: PyTree, tokens: jax.Array) -> tuple[jax.Array, PyTree]:
        logits, changed = model.apply({**variables, "cache": cache}, tokens, mutable=["cache"])
        return logits[:, -1].dense(), changed["cache"]

    logits, cache = call(empty_cache(model, variables["params"], rows, given + length), prompt)

    def next_token(carry: Any, i: jax.Array) -> tuple[Any, jax.Array]:
        logits, cache = carry
        token = sampling(logits, jax.random.fold_in(key, i))
        return call(cache, token[:, None]), token

    # The last token needs no further call of the model, but one shape for all steps compiles once.
    _, tokens = jax.lax.scan(next_token, (logits, cache), jnp.arange(length))
    return tokens.T
