"""Sampling: each token is drawn from the model's distribution over the next one."""

import dataclasses
import math
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.decoding.generator import Generator, Inputs
from txjax.decoding.text_search import Search
from txjax.types import PyTree, config_field

CHUNK = 32  # tokens that `stream` generates at a time


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Progress:
    """Texts that are being generated.

    Attributes:
      count: int32 [], tokens generated.
      logits: of the next token.
      state: the generator's.
      over: which texts have ended.
      used_tokens: the tokens that each text has, its prompt included. If None, `Sampling` does not need them.
    """

    count: Int[Array, ""]
    logits: Float[Array, "B V"]
    state: PyTree
    over: Bool[Array, "B"]
    used_tokens: Bool[Array, "B V"] | None = None


@dataclasses.dataclass
class Sampling(Search):
    """Tokens are drawn one after the other.

    The options apply in the order repetition_penalty, temperature, top_k, top_p, min_p, as in transformers.

    Attributes:
      temperature: divides the logits; 0 always takes the most likely token (greedy).
      top_k: only the k most likely tokens (Fan et al. 2018). If None, all.
      top_p: only the most likely tokens that together have this probability (Holtzman et al. 2020). If None, all.
      min_p: only tokens with at least this fraction of the largest probability (Nguyen et al. 2024). If None, all.
      repetition_penalty: divides the positive logits of tokens that the text or its prompt has, and multiplies their
        negative ones (Keskar et al. 2019), for greedy too; above 1 such tokens become less likely. A source of an
        encoder-decoder doesn't count. If None, no penalty.
    """

    temperature: float = config_field(1.0, at_least=0)
    top_k: int | None = config_field(None, at_least=1)
    top_p: float | None = config_field(None, above=0, at_most=1)
    min_p: float | None = config_field(None, above=0, at_most=1)
    repetition_penalty: float | None = config_field(None, above=0)

    def draw(
        self, logits: Float[Array, "B V"], key: jax.Array, used_tokens: Bool[Array, "B V"] | None = None
    ) -> Int[Array, "B"]:
        """The next token of each row, int32.

        Args:
          used_tokens: the tokens that each text has. If None, none has a penalty.
        """
        logits = self.penalise(logits, used_tokens)
        if self.temperature == 0:
            return logits.argmax(-1).astype(jnp.int32)
        return jax.random.categorical(key, self.filter(logits)).astype(jnp.int32)

    def penalise(self, logits: Float[Array, "B V"], used_tokens: Bool[Array, "B V"] | None) -> Float[Array, "B V"]:
        """The logits after `repetition_penalty`."""
        if used_tokens is None or self.repetition_penalty is None:
            return logits
        penalty = self.repetition_penalty
        return jnp.where(used_tokens, jnp.where(logits < 0, logits * penalty, logits / penalty), logits)

    def filter(self, logits: Float[Array, "B V"]) -> Float[Array, "B V"]:
        """The logits after `temperature`, which is above 0; -inf for tokens that are not drawn."""
        logits = logits / self.temperature
        ranked = None
        if self.top_k is not None:
            ranked, _ = jax.lax.top_k(logits, min(self.top_k, logits.shape[-1]))
            floor = ranked.min(-1, keepdims=True)  # not ranked[:, -1:]: XLA would sort all tokens
            logits = jnp.where(logits < floor, -jnp.inf, logits)
        if self.top_p is not None:
            ranked = jnp.sort(logits, axis=-1)[:, ::-1] if ranked is None else ranked
            chances = jax.nn.softmax(ranked, axis=-1)
            before = jnp.cumsum(chances, axis=-1) - chances
            floor = jnp.where(before < self.top_p, ranked, jnp.inf).min(-1, keepdims=True)
            logits = jnp.where(logits < floor, -jnp.inf, logits)
        if self.min_p is not None:
            floor = logits.max(-1, keepdims=True) + math.log(self.min_p)
            logits = jnp.where(logits < floor, -jnp.inf, logits)
        return logits

    def __call__(
        self, generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array
    ) -> Int[Array, "B T"]:
        variables = generator.prepare(variables, inputs)
        return self.extend(generator, variables, self.start(generator, variables, inputs, length), length, key)[1]

    def start(self, generator: Generator, variables: PyTree, inputs: Inputs, length: int) -> Progress:
        """The prompts, read, with space for `length` more tokens."""
        logits, state = generator.start(variables, inputs, length)
        used_tokens = None if self.repetition_penalty is None else tokens_of(inputs, logits.shape[-1])
        return Progress(jnp.int32(0), logits, state, jnp.zeros(len(logits), bool), used_tokens)

    def extend(
        self, generator: Generator, variables: PyTree, progress: Progress, count: int, key: jax.Array
    ) -> tuple[Progress, Int[Array, "B N"]]:
        """Generates `count` more tokens, int32. Stops when all texts have ended."""
        first = progress.count

        def is_unfinished(carry: tuple[Progress, jax.Array]) -> jax.Array:
            now = carry[0]
            more = now.count < first + count
            return more & ~now.over.all() if self.end else more

        # The last token needs no further call of the model, but one shape for all steps compiles once.
        def add(carry: tuple[Progress, jax.Array]) -> tuple[Progress, jax.Array]:
            now, tokens = carry
            token = self.draw(now.logits, jax.random.fold_in(key, now.count), now.used_tokens)
            over = now.over
            if self.end:
                token = jnp.where(over, self.filling, token)
                over = self.ends(token)
            tokens = jax.lax.dynamic_update_slice_in_dim(tokens, token[:, None], now.count - first, axis=1)
            used_tokens = (
                None if now.used_tokens is None else now.used_tokens.at[jnp.arange(len(token)), token].set(True)
            )
            return Progress(now.count + 1, *generator.step(variables, now.state, token), over, used_tokens), tokens

        tokens = jnp.full((len(progress.over), count), self.filling, jnp.int32)
        return jax.lax.while_loop(is_unfinished, add, (progress, tokens))


def tokens_of(inputs: Inputs, vocab: int) -> Bool[Array, "B V"]:
    """The tokens that each prompt has, without its padding."""
    tokens = jnp.asarray(inputs["tokens"])
    mask = jnp.asarray(inputs["segments"]) > 0 if "segments" in inputs else jnp.ones(tokens.shape, bool)
    return jnp.zeros((len(tokens), vocab), bool).at[jnp.arange(len(tokens))[:, None], tokens].max(mask)


def stream(
    generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array, sampling: Sampling
) -> Iterator[Int[np.ndarray, "B N"]]:
    """Yields the tokens of `sampling` in chunks until all texts have ended.

    Compiles two programs, for the prompt and for a chunk.
    """
    chunks = -(-length // CHUNK)
    size = -(-length // chunks)  # surplus tokens of the last chunk are dropped
    variables = jax.jit(generator.prepare)(variables, inputs)
    progress = jax.jit(lambda v, prompt: sampling.start(generator, v, prompt, length))(variables, inputs)
    more = jax.jit(lambda now, v, k: sampling.extend(generator, v, now, size, k), donate_argnums=0)
    for start in range(0, length, size):
        progress, tokens = more(progress, variables, key)
        yield jax.device_get(tokens)[:, : length - start]
        if jax.device_get(progress.over).all():
            return
