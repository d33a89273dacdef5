"""Sampling: each token is drawn from the model's distribution over the next one."""

import dataclasses
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
    """

    count: Int[Array, ""]
    logits: Float[Array, "B V"]
    state: PyTree
    over: Bool[Array, "B"]


@dataclasses.dataclass
class Sampling(Search):
    """Tokens are drawn one after the other.

    Attributes:
      temperature: divides the logits; 0 always takes the most likely token (greedy).
      top_k: only the k most likely tokens (Fan et al. 2018). If None, all.
      top_p: only the most likely tokens that together have this probability (Holtzman et al. 2020). If None, all.
    """

    temperature: float = config_field(1.0, at_least=0)
    top_k: int | None = config_field(None, at_least=1)
    top_p: float | None = config_field(None, above=0, at_most=1)

    def draw(self, logits: Float[Array, "B V"], key: jax.Array) -> Int[Array, "B"]:
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

    def __call__(
        self, generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array
    ) -> Int[Array, "B T"]:
        return self.extend(generator, variables, self.start(generator, variables, inputs, length), length, key)[1]

    def start(self, generator: Generator, variables: PyTree, inputs: Inputs, length: int) -> Progress:
        """The prompts, read, with space for `length` more tokens."""
        logits, state = generator.start(variables, inputs, length)
        return Progress(jnp.int32(0), logits, state, jnp.zeros(len(logits), bool))

    def extend(
        self, generator: Generator, variables: PyTree, progress: Progress, count: int, key: jax.Array
    ) -> tuple[Progress, Int[Array, "B N"]]:
        """Generates `count` more tokens, int32. Stops when all texts have ended."""
        first = progress.count

        def unfinished(carry: tuple[Progress, jax.Array]) -> jax.Array:
            now = carry[0]
            more = now.count < first + count
            return more if self.end is None else more & ~now.over.all()

        # The last token needs no further call of the model, but one shape for all steps compiles once.
        def add(carry: tuple[Progress, jax.Array]) -> tuple[Progress, jax.Array]:
            now, tokens = carry
            token, over = self.draw(now.logits, jax.random.fold_in(key, now.count)), now.over
            if self.end is not None:
                token = jnp.where(over, self.end, token)
                over = token == self.end
            tokens = jax.lax.dynamic_update_slice_in_dim(tokens, token[:, None], now.count - first, axis=1)
            return Progress(now.count + 1, *generator.step(variables, now.state, token), over), tokens

        tokens = jnp.full((len(progress.over), count), self.end or 0, jnp.int32)
        return jax.lax.while_loop(unfinished, add, (progress, tokens))


def stream(
    generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array, sampling: Sampling
) -> Iterator[Int[np.ndarray, "B N"]]:
    """Yields the tokens of `sampling` in chunks until all texts have ended.

    Compiles two programs, for the prompt and for a chunk.
    """
    chunks = -(-length // CHUNK)
    size = -(-length // chunks)  # surplus tokens of the last chunk are dropped
    progress = jax.jit(lambda v, given: sampling.start(generator, v, given, length))(variables, inputs)
    more = jax.jit(lambda now, v, k: sampling.extend(generator, v, now, size, k), donate_argnums=0)
    for start in range(0, length, size):
        progress, tokens = more(progress, variables, key)
        yield jax.device_get(tokens)[:, : length - start]
        if jax.device_get(progress.over).all():
            return
