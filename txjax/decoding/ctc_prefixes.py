"""The beginnings of texts that a prefix beam search of CTC holds, and how they are extended by a frame."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from txjax.decoding.ngram import first_context


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Prefixes:
    """Beginnings of the texts of one example.

    Attributes:
      symbols: int32; 0 behind the end.
      lengths: int32.
      blank, symbol: log-probability of all paths of the prefix that end in the blank, or in its last symbol; both are
        -inf where there is no prefix.
      prior: float32, what is added to the log-probability of the text: of the n-gram, and the bonus.
      context: int32, the row of the n-gram's table.
    """

    symbols: Int[Array, "K U"]
    lengths: Int[Array, "K"]
    blank: Float[Array, "K"]
    symbol: Float[Array, "K"]
    prior: Float[Array, "K"]
    context: Int[Array, "K"]

    @staticmethod
    def empty(size: int, length: int, contexts: int) -> "Prefixes":
        """The prefix without symbols, and none beside it."""
        nothing = jnp.full(size, -jnp.inf)
        lengths = jnp.zeros(size, jnp.int32)
        context = jnp.full(size, first_context(contexts), jnp.int32)
        symbols = jnp.zeros((size, length), jnp.int32)
        return Prefixes(symbols, lengths, nothing.at[0].set(0.0), nothing, jnp.zeros(size), context)

    @property
    def total(self) -> Float[Array, "K"]:
        """The log-probability of all paths of each prefix."""
        return jnp.logaddexp(self.blank, self.symbol)

    @property
    def last(self) -> Int[Array, "K"]:
        """The last symbol; -1 of a prefix without symbols."""
        index = jnp.maximum(self.lengths - 1, 0)[:, None]
        return jnp.where(self.lengths > 0, jnp.take_along_axis(self.symbols, index, axis=1)[:, 0], -1)

    def is_parent(self) -> Bool[Array, "K K"]:
        """Whether a second prefix is a first one and one more symbol."""
        exists = self.total > -jnp.inf
        positions = jnp.arange(self.symbols.shape[1])
        stems = jnp.where(positions[None] < self.lengths[:, None] - 1, self.symbols, 0)
        equal = (self.symbols[:, None] == stems[None]).all(-1)
        return equal & (self.lengths[:, None] + 1 == self.lengths[None]) & exists[:, None] & exists[None]

    def before(self, symbols: Int[Array, "1 N"]) -> Float[Array, "K N"]:
        """The log-probability of the paths of each prefix that a further symbol may follow: all, or those that end in
        the blank if it equals the last symbol."""
        return jnp.where(symbols == self.last[:, None], self.blank[:, None], self.total[:, None])

    def extend(
        self,
        blank: Float[Array, ""],
        log_probs: Float[Array, "V"],
        candidates: Int[Array, "C"],
        gains: Float[Array, "contexts S"],
    ) -> "Prefixes":
        """The best prefixes after a frame: the same ones, and those with one more symbol.

        Args:
          blank: the blank's log-probability in the frame.
          log_probs: those of the symbols; -inf for the blank.
          candidates: the symbols that prefixes are extended by.
          gains: what each symbol adds to the prior, by context.
        """
        size = len(self.lengths)
        contexts = len(gains)
        last = self.last
        of_last = jnp.where(last >= 0, log_probs[last], -jnp.inf)
        is_parent = self.is_parent()
        from_parents = jnp.where(is_parent, self.before(last[None]) + of_last[None], -jnp.inf)
        stay = self.total + blank, jnp.logaddexp(self.symbol + of_last, jax.nn.logsumexp(from_parents, axis=0))
        longer = self.before(candidates[None]) + log_probs[candidates][None]
        is_held = (is_parent[:, :, None] & (last[None, :, None] == candidates[None, None])).any(1)
        longer = jnp.where(is_held, -jnp.inf, longer).reshape(-1)
        longer_prior = (self.prior[:, None] + gains[self.context[:, None], candidates[None]]).reshape(-1)

        scores = jnp.concatenate([jnp.logaddexp(*stay) + self.prior, longer + longer_prior])
        _, best = jax.lax.top_k(scores, size)
        grows = best >= size
        index = jnp.maximum(best - size, 0)
        source = jnp.where(grows, index // len(candidates), jnp.minimum(best, size - 1))
        symbol = jnp.where(grows, candidates[index % len(candidates)], 0)
        at_end = jnp.arange(self.symbols.shape[1])[None] == self.lengths[source, None]
        context = (self.context[source] * gains.shape[1] + symbol) % contexts
        return Prefixes(
            symbols=jnp.where(grows[:, None] & at_end, symbol[:, None], self.symbols[source]),
            lengths=self.lengths[source] + grows,
            blank=jnp.where(grows, -jnp.inf, stay[0][source]),
            symbol=jnp.where(grows, longer[index], stay[1][source]),
            prior=jnp.where(grows, longer_prior[index], self.prior[source]),
            context=jnp.where(grows, context, self.context[source]),
        )
