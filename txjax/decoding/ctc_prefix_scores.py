"""CTC's scores of the beginnings of texts, for a search that adds a token to all texts at a time."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.audio.ctc_trellis import IMPOSSIBLE

Pair = tuple[jax.Array, jax.Array]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PrefixPaths:
    """The paths of a prefix in each row (Watanabe et al. 2017, algorithm 2).

    Attributes:
      symbol, blank: float32, log-probability of the paths of a prefix until before each frame, and until the end, that
        end in its last symbol, or in the blank.
      last: int32, the last symbol; -1 of a prefix without symbols.
      score: float32, log-probability of all texts that begin with the prefix.
    """

    symbol: Float[Array, "N G"]
    blank: Float[Array, "N G"]
    last: Int[Array, "N"]
    score: Float[Array, "N"]

    @property
    def total(self) -> Float[Array, "N G"]:
        """The log-probability of all paths of the prefix; in the last column that of the prefix as a whole text."""
        return jnp.logaddexp(self.symbol, self.blank)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FrameLogProbs:
    """The log-probabilities of the classes in the frames of each example, at least `IMPOSSIBLE`.

    Behind the last frame only the blank is possible, so all paths end in the last column.

    Attributes:
      symbols: float32, of the decoder's tokens; `IMPOSSIBLE` for those that CTC has no symbol for.
      blank: float32, of the blank.
    """

    symbols: Float[Array, "B F V"]
    blank: Float[Array, "B F"]

    @staticmethod
    def of(logits: Float[Array, "B F C"], frames: Int[Array, "B"], blank: int, vocab: int) -> "FrameLogProbs":
        """From logits; those behind an example's frames are not read. Tokens have the numbers of their classes.

        Args:
          blank: the class of the blank; a negative one counts from the last.
          vocab: the number of the decoder's tokens, V.
        """
        count, classes = logits.shape[1:]
        blank %= classes
        counts = (jnp.arange(count)[None] < frames[:, None])[..., None]
        is_blank = (jnp.arange(classes) == blank)[None, None]
        log_probs = jnp.maximum(jax.nn.log_softmax(logits.astype(jnp.float32)), IMPOSSIBLE)
        log_probs = jnp.where(counts, log_probs, jnp.where(is_blank, 0.0, IMPOSSIBLE))
        symbols = jnp.where(is_blank, IMPOSSIBLE, log_probs)[..., :vocab]
        missing = ((0, 0), (0, 0), (0, vocab - symbols.shape[-1]))
        return FrameLogProbs(jnp.pad(symbols, missing, constant_values=IMPOSSIBLE), log_probs[..., blank])

    def start(self) -> PrefixPaths:
        """The prefix without symbols of each example."""
        rows = len(self.blank)
        blank = jnp.pad(self.blank.cumsum(1), ((0, 0), (1, 0)))
        no_paths = jnp.full_like(blank, IMPOSSIBLE)
        return PrefixPaths(no_paths, jnp.maximum(blank, IMPOSSIBLE), jnp.full(rows, -1, jnp.int32), jnp.zeros(rows))

    def score(self, paths: PrefixPaths, tokens: Int[Array, "N C"]) -> Float[Array, "N C"]:
        """log p(texts that begin with the prefix and the token) of some tokens in each row.

        Args:
          paths: in equal groups of rows, a group for each example.
        """
        into = self._paths_before(paths, tokens)
        return jnp.maximum(jax.nn.logsumexp(into + self._of(tokens), axis=2), IMPOSSIBLE)

    def extend(self, paths: PrefixPaths, tokens: Int[Array, "N"]) -> PrefixPaths:
        """The paths of the prefixes and one more token each."""
        columns = tokens[:, None]
        into = self._paths_before(paths, columns)[:, 0]
        blank_log_probs = jnp.repeat(self.blank, len(tokens) // len(self.blank), axis=0)
        symbol = sum_paths(into, self._of(columns)[:, 0])
        blank = sum_paths(symbol[:, :-1], blank_log_probs)
        return PrefixPaths(symbol, blank, tokens, self.score(paths, columns)[:, 0])

    def _paths_before(self, paths: PrefixPaths, tokens: Int[Array, "N C"]) -> Float[Array, "N C F"]:
        """The paths of the prefix that a token may follow: all, or those that end in the blank if it is the last."""
        repeats = (tokens == paths.last[:, None])[:, :, None]
        return jnp.where(repeats, paths.blank[:, None], paths.total[:, None])[:, :, :-1]

    def _of(self, tokens: Int[Array, "N C"]) -> Float[Array, "N C F"]:
        """The log-probability of the tokens of each row in the frames."""
        groups = tokens.reshape(len(self.symbols), -1)
        chosen = jnp.take_along_axis(self.symbols, groups[:, None], axis=2).swapaxes(1, 2)
        return chosen.reshape(*tokens.shape, -1)


def sum_paths(into: Float[Array, "N F"], log_probs: Float[Array, "N F"]) -> Float[Array, "N G"]:
    """x[0] = `IMPOSSIBLE`, x[t + 1] = log(exp(x[t]) + exp(into[t])) + log_probs[t], of all frames at once (G = F + 1).

    Args:
      into: log-probability of the paths that come from another state before each frame.
      log_probs: of the state's class in each frame.
    """

    def combine(first: Pair, second: Pair) -> Pair:
        return first[0] + second[0], jnp.logaddexp(first[1] + second[0], second[1])

    _, sums = jax.lax.associative_scan(combine, (log_probs, into + log_probs), axis=1)
    return jnp.pad(jnp.maximum(sums, IMPOSSIBLE), ((0, 0), (1, 0)), constant_values=IMPOSSIBLE)
