"""Search for the most likely texts of a model of CTC: along the best path, or by a beam of prefixes."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.decoding.ctc_prefixes import Prefixes
from txjax.decoding.ngram import Ngram
from txjax.types import config_field


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CTCTexts:
    """Texts of each example with their scores, the best first.

    Attributes:
      symbols: int32, the classes of a text; 0 behind its end.
      lengths: int32, the number of symbols.
      scores: float32; -inf where there is no text.
    """

    symbols: Int[Array, "B K U"]
    lengths: Int[Array, "B K"]
    scores: Float[Array, "B K"]

    def select(self, scores: Float[Array, "B K"]) -> "CTCTexts":
        """The same texts in the order of other scores."""
        order = jnp.argsort(-scores, axis=1)
        symbols = jnp.take_along_axis(self.symbols, order[:, :, None], axis=1)
        lengths, sorted_scores = (jnp.take_along_axis(x, order, axis=1) for x in (self.lengths, scores))
        return CTCTexts(symbols, lengths, sorted_scores)


@dataclasses.dataclass
class CTCSearch:
    """How texts are found, given the logits of frames. To be jitted, with at most one loop, over frames."""

    @property
    def counted(self) -> Ngram | None:
        """The n-gram model whose table the search reads; None if it reads none."""
        return None

    def __call__(
        self,
        logits: Float[Array, "B F V"],
        frames: Int[Array, "B"],
        blank: int = -1,
        table: Float[Array, "contexts S"] | None = None,
    ) -> CTCTexts:
        """The texts of each example.

        Args:
          logits: of a model; those behind an example's frames are not read.
          frames: the number of frames of each example.
          blank: the class of the blank; a negative one counts from the last.
          table: of the n-gram model, if the search has one.
        """
        raise NotImplementedError


@dataclasses.dataclass
class BestPath(CTCSearch):
    """The text of the likeliest class in each frame (Graves et al. 2006, 3.2); its score is that of this path."""

    def __call__(
        self,
        logits: Float[Array, "B F V"],
        frames: Int[Array, "B"],
        blank: int = -1,
        table: Float[Array, "contexts S"] | None = None,
    ) -> CTCTexts:
        rows, count, classes = logits.shape
        path = logits.argmax(-1).astype(jnp.int32)
        counts = jnp.arange(count)[None] < frames[:, None]
        changes = jnp.pad(path[:, 1:] != path[:, :-1], ((0, 0), (1, 0)), constant_values=True)
        begins = counts & changes & (path != blank % classes)
        positions = jnp.where(begins, begins.cumsum(1) - 1, count)  # those at `count` are dropped
        symbols = jnp.zeros_like(path).at[jnp.arange(rows)[:, None], positions].set(path, mode="drop")
        best = jax.nn.log_softmax(logits.astype(jnp.float32)).max(-1)
        scores = jnp.where(counts, best, 0.0).sum(1)
        return CTCTexts(symbols[:, None], begins.sum(1)[:, None], scores[:, None])


@dataclasses.dataclass
class PrefixBeam(CTCSearch):
    """The likeliest texts by the paths of all of their prefixes that a beam holds (Hannun et al. 2014, algorithm 1).

    The score of a text of n symbols is log p(text) + ngram_weight log p_ngram(text) + bonus n. In each frame the
    prefixes of the best scores are kept, so a text's score lacks the paths through prefixes that were not.

    A neural language model can't take part: in one frame some prefixes grow by a symbol and others stay, and the cache
    of its keys and values (`nn.attention.cache`) has one index for all rows. It scores the texts that the beam returns
    (`rescore`).

    Attributes:
      size: prefixes that are kept.
      candidates: the likeliest symbols of a frame that prefixes are extended by. If None, all.
      ngram: a model of the next symbol. If None, there is none.
      ngram_weight: of its log-probability.
      bonus: for each symbol, since other terms favour short texts.
    """

    size: int = config_field(8, at_least=1)
    candidates: int | None = config_field(None, at_least=1)
    ngram: Ngram | None = None
    ngram_weight: float = config_field(0.5, at_least=0)
    bonus: float = 0.0

    @property
    def counted(self) -> Ngram | None:
        return self.ngram

    def __call__(
        self,
        logits: Float[Array, "B F V"],
        frames: Int[Array, "B"],
        blank: int = -1,
        table: Float[Array, "contexts S"] | None = None,
    ) -> CTCTexts:
        assert (table is None) == (self.ngram is None), "the n-gram's table"
        count, classes = logits.shape[1:]
        blank %= classes
        gains = self.bonus + (jnp.zeros((1, classes + 1)) if table is None else self.ngram_weight * table)
        most = min(self.candidates or classes, classes - 1)

        def step(prefixes: Prefixes, frame: tuple[jax.Array, ...]) -> tuple[Prefixes, None]:
            log_probs, counts = frame
            of_symbols = log_probs.at[blank].set(-jnp.inf)
            _, candidates = jax.lax.top_k(of_symbols, most)
            extended = prefixes.extend(log_probs[blank], of_symbols, candidates, gains)
            return jax.tree.map(lambda new, old: jnp.where(counts, new, old), extended, prefixes), None

        def search(logits: Float[Array, "F V"], frames: Int[Array, ""]) -> tuple[jax.Array, jax.Array, jax.Array]:
            log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
            start = Prefixes.empty(self.size, count, len(gains))
            prefixes, _ = jax.lax.scan(step, start, (log_probs, jnp.arange(count) < frames))
            end = gains[prefixes.context, -1] - self.bonus
            return prefixes.symbols, prefixes.lengths, prefixes.total + prefixes.prior + end

        symbols, lengths, scores = jax.vmap(search)(logits, frames)
        return CTCTexts(symbols, lengths, scores).select(scores)
