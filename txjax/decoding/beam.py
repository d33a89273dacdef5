"""Beam search: the most likely texts, as far as the most likely beginnings lead to them."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.decoding.generator import Generator, Inputs
from txjax.decoding.text_search import Search
from txjax.types import PyTree, config_field


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Hypotheses:
    """Texts with their scores, the best first.

    Attributes:
      tokens: int32, after the prompt.
      scores: float32, log-probabilities, of finished texts divided by the length penalty; -inf where there is no text.
    """

    tokens: Int[Array, "B K T"]
    scores: Float[Array, "B K"]

    @property
    def exist(self) -> Bool[Array, "B K"]:
        """Which are texts."""
        return self.scores > -jnp.inf


@dataclasses.dataclass
class Beam(Search):
    """Beam search with a length penalty; the defaults are those of Vaswani et al. 2017.

    Log-probabilities are summed in float32. At each length the `size` most likely texts are kept. A text that ends is
    finished if it is one of these; at full length all of them are. The best `size` finished texts are returned. A row
    is over when it has so many.

    The scores of tokens are those of the generator (`log_probs`). A subclass may have another `penalty`, and another
    rule for when a row is over (`find_ended`).

    Attributes:
      size: texts of each row that are kept; 1 is greedy.
      length_penalty: alpha of Wu et al. 2016: the score of a text of n tokens (`end` included) is its log-probability
        divided by ((5 + n) / 6)^alpha; 0 = no penalty.
    """

    size: int = config_field(4, at_least=1)
    length_penalty: float = config_field(0.6, at_least=0)

    def __call__(
        self, generator: Generator, variables: PyTree, inputs: Inputs, length: int, key: jax.Array
    ) -> Int[Array, "B T"]:
        return self.hypotheses(generator, variables, inputs, length).tokens[:, 0]

    def hypotheses(self, generator: Generator, variables: PyTree, inputs: Inputs, length: int) -> Hypotheses:
        """The best `size` texts of each row and their scores. One loop, which ends when all rows are over."""
        variables = generator.prepare(variables, inputs)
        logits, state = generator.start(variables, inputs, length)
        rows, vocab = logits.shape
        state = generator.select(state, jnp.zeros((rows, self.size), jnp.int32))
        logits = jnp.repeat(logits, self.size, axis=0)
        empty = jnp.full((rows, self.size, length), self.filling, jnp.int32)
        nothing = Hypotheses(empty, jnp.full((rows, self.size), -jnp.inf))
        live = Hypotheses(empty, nothing.scores.at[:, 0].set(0.0))

        def is_unfinished(carry: tuple) -> jax.Array:
            count, _, _, over, *_ = carry
            return (count < length) & ~over.all()

        def add(carry: tuple) -> tuple:
            count, live, done, over, logits, state = carry
            chances = generator.log_probs(logits).reshape(rows, self.size, vocab)
            totals = (live.scores[:, :, None] + chances).reshape(rows, -1)
            scores, index = jax.lax.top_k(totals, min(2 * self.size, totals.shape[1]))  # at most half of them end
            origin = index // vocab
            tokens = index % vocab
            texts = jnp.take_along_axis(live.tokens, origin[:, :, None], axis=1).at[:, :, count].set(tokens)
            count += 1
            ends = jnp.broadcast_to(count == length, tokens.shape)
            ends |= self.ends(tokens)
            finished = ends & (jnp.arange(ends.shape[1]) < self.size)[None] & ~over[:, None]
            done = best(self.size, done, Hypotheses(texts, jnp.where(finished, scores / self.penalty(count), -jnp.inf)))
            scores, kept = jax.lax.top_k(jnp.where(ends, -jnp.inf, scores), self.size)
            tokens, origin = (jnp.take_along_axis(x, kept, axis=1) for x in (tokens, origin))
            live = Hypotheses(jnp.take_along_axis(texts, kept[:, :, None], axis=1), scores)
            over |= self.find_ended(live, done, count, length)
            state = generator.select(state, origin)
            return count, live, done, over, *generator.step(variables, state, tokens.reshape(-1))

        start = jnp.int32(0), live, nothing, jnp.zeros(rows, bool), logits, state
        return jax.lax.while_loop(is_unfinished, add, start)[2]

    def penalty(self, count: Int[Array, ""]) -> Float[Array, ""]:
        """By what the log-probability of a text of `count` tokens is divided."""
        return ((5.0 + count) / 6.0) ** self.length_penalty

    def find_ended(self, live: Hypotheses, done: Hypotheses, count: Int[Array, ""], length: int) -> Bool[Array, "B"]:
        """Which rows need no more tokens, given their texts of `count` of `length` tokens and the finished ones."""
        return done.exist.all(1)


def best(size: int, *parts: Hypotheses) -> Hypotheses:
    """The best of several hypotheses of the same rows."""
    scores, index = jax.lax.top_k(jnp.concatenate([part.scores for part in parts], axis=1), size)
    tokens = jnp.concatenate([part.tokens for part in parts], axis=1)
    return Hypotheses(jnp.take_along_axis(tokens, index[:, :, None], axis=1), scores)
