"""Text generation with a causal model: prefill of the KV cache, if the model has one, then one token at a time."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from txjax.models.text.decoder import empty_cache
from txjax.nn import Logits
from txjax.types import PyTree, config_field

CHUNK = 32  # tokens that `stream` generates at a time


@dataclasses.dataclass
class Sampling:
    """How the next token is drawn from the logits.

    Attributes:
      temperature: divides the logits; 0 always takes the most likely token (greedy).
      top_k: only the k most likely tokens (Fan et al. 2018). If None, all.
      top_p: only the most likely tokens that together have this probability (Holtzman et al. 2020). If None, all.
    """

    temperature: float = config_field(1.0, at_least=0)
    top_k: int | None = config_field(None, at_least=1)
    top_p: float | None = config_field(None, above=0, at_most=1)

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


Carry = tuple[jax.Array, PyTree]  # the logits of the next token, and the state of the text so far


@dataclasses.dataclass(frozen=True)
class Cached:
    """Decoding with a model that has a KV cache: each call of it reads one token."""

    model: Any

    def begin(self, variables: PyTree, prompt: Int[Array, "B P"], length: int) -> Carry:
        """The carry after the prompt, with space in the cache for `length` more tokens."""
        rows, given = prompt.shape
        return self._call(variables, empty_cache(self.model, variables["params"], rows, given + length), prompt)

    def add(self, variables: PyTree, cache: PyTree, token: Int[Array, "B"]) -> Carry:
        """The carry after one more token."""
        return self._call(variables, cache, token[:, None])

    def _call(self, variables: PyTree, cache: PyTree, tokens: jax.Array) -> Carry:
        output, changed = self.model.apply({**variables, "cache": cache}, tokens, train=False, mutable=["cache"])
        return Logits.of(output)[:, -1].dense(), changed["cache"]


@dataclasses.dataclass(frozen=True)
class Recomputed:
    """Decoding with any causal model: each token is computed anew from the last `window` tokens."""

    model: Any
    window: int

    def begin(self, variables: PyTree, prompt: Int[Array, "B P"], length: int) -> Carry:
        """The carry after the prompt."""
        given = prompt[:, -self.window :]
        text = jnp.pad(given, ((0, 0), (0, self.window - given.shape[1])))
        return self._call(variables, text, jnp.int32(given.shape[1]))

    def add(self, variables: PyTree, state: PyTree, token: Int[Array, "B"]) -> Carry:
        """The carry after one more token."""
        text, count = state
        text = jnp.where(count < self.window, text, jnp.roll(text, -1, axis=1))
        count = jnp.minimum(count + 1, self.window)
        return self._call(variables, text.at[:, count - 1].set(token), count)

    def _call(self, variables: PyTree, text: jax.Array, count: jax.Array) -> Carry:
        output = self.model.apply(variables, text, train=False)
        return Logits.of(output)[:, count - 1].dense(), (text, count)


def writer(model: Any, variables: PyTree, window: int) -> Cached | Recomputed:
    """The decoder of a model: `Cached` if the model has a KV cache, else `Recomputed`.

    Args:
      window: the number of tokens that a model without a cache reads, as in training.
    """
    tokens = jax.ShapeDtypeStruct((1, window), jnp.int32)
    _, changed = jax.eval_shape(lambda v, t: model.apply(v, t, train=False, mutable=["cache"]), variables, tokens)
    return Cached(model) if changed.get("cache") else Recomputed(model, window)


def decode(
    how: Cached | Recomputed,
    variables: PyTree,
    carry: Carry,
    start: int | Int[Array, ""],
    count: int,
    key: jax.Array,
    sampling: Sampling,
) -> tuple[Carry, Int[Array, "B N"]]:
    """Generates `count` more tokens, int32, after `start` generated ones."""

    def next_token(carry: Carry, i: jax.Array) -> tuple[Carry, jax.Array]:
        logits, state = carry
        token = sampling(logits, jax.random.fold_in(key, i))
        return how.add(variables, state, token), token

    # The last token needs no further call of the model, but one shape for all steps compiles once.
    carry, tokens = jax.lax.scan(next_token, carry, start + jnp.arange(count))
    return carry, tokens.T


def generate(
    model: Any,
    variables: PyTree,
    prompt: Int[Array, "B P"],
    length: int,
    key: jax.Array,
    sampling: Sampling,
    window: int | None = None,
) -> Int[Array, "B T"]:
    """Generates `length` tokens after a prompt, int32. Jit it with `length`, `sampling` and `window` static.

    Args:
      window: as in `writer`. If None, the whole text.

    Raises:
      UserError: the text is longer than the model's positions.
    """
    how = writer(model, variables, window or prompt.shape[1] + length)
    return decode(how, variables, how.begin(variables, prompt, length), 0, length, key, sampling)[1]


def stream(
    how: Cached | Recomputed,
    variables: PyTree,
    prompt: Int[Array, "B P"],
    length: int,
    key: jax.Array,
    sampling: Sampling,
) -> Iterator[Int[np.ndarray, "B N"]]:
    """Yields the tokens of `generate` in chunks; compiles two programs, for the prompt and for a chunk."""
    chunks = -(-length // CHUNK)
    size = -(-length // chunks)  # surplus tokens of the last chunk are dropped
    carry = jax.jit(lambda v, p: how.begin(v, p, length))(variables, prompt)
    more = jax.jit(lambda c, v, i, k: decode(how, v, c, i, size, k, sampling), donate_argnums=0)
    for start in range(0, length, size):
        carry, tokens = more(carry, variables, jnp.int32(start), key)
        yield jax.device_get(tokens)[:, : length - start]
