"""The trellis of connectionist temporal classification (Graves et al. 2006, 4.1): the paths of a text."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

IMPOSSIBLE = -1e30  # a logarithm of 0 that stays finite when it is added up over all frames in float32

Visit = Callable[[Float[Array, "B S"], Float[Array, "3 B S"]], tuple[Float[Array, "B S"], Any]]


def text_fits(frames: Int[Array, "B"], symbols: Int[Array, "B U"], lengths: Int[Array, "B"]) -> Bool[Array, "B"]:
    """Whether a text has a path: a frame for each symbol, and one for the blank between two equal ones.

    Args:
      frames: the number of frames.
      symbols: the classes of a text; any behind its end.
      lengths: the number of symbols.
    """
    inside = jnp.arange(1, symbols.shape[1])[None] < lengths[:, None]
    repeats = (inside & (symbols[:, 1:] == symbols[:, :-1])).sum(1)
    return frames >= lengths + repeats


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CTCTrellis:
    """The states of texts, S = 2 U + 1: a blank, the first symbol, a blank, ..., the last symbol, a blank.

    A path is in a state in every frame. It begins in the first blank or symbol, stays or takes the next state, or the
    one after it where that is another symbol than the last one, and ends in the text's last symbol or blank.

    Attributes:
      log_probs: float32 (or float64), log-probability of each state's class in each frame, at least `IMPOSSIBLE`.
      jumps: 0 where a path may come from two states before, else `IMPOSSIBLE`.
      frames: the number of frames that count.
      lengths: the number of symbols that count.
    """

    log_probs: Float[Array, "B F S"]
    jumps: Float[Array, "B S"]
    frames: Int[Array, "B"]
    lengths: Int[Array, "B"]

    @staticmethod
    def of(
        logits: Float[Array, "B F V"],
        frames: Int[Array, "B"],
        symbols: Int[Array, "B U"],
        lengths: Int[Array, "B"],
        blank: int,
    ) -> "CTCTrellis":
        """From logits; what is in frames that don't count, NaN too, has no influence, and no gradient.

        Args:
          blank: the class of the blank; a negative one counts from the last.
        """
        batch, count, classes = logits.shape
        dtype = jnp.promote_types(logits.dtype, jnp.float32)
        counts = jnp.arange(count)[None, :, None] < frames[:, None, None]
        inside = jnp.arange(symbols.shape[1])[None] < lengths[:, None]
        blank %= classes
        texts = jnp.pad(jnp.where(inside, symbols, blank), ((0, 0), (0, 1)), constant_values=blank)
        index = jnp.broadcast_to(texts[:, None], (batch, count, texts.shape[1]))
        # One gather for the symbols and the blank, since the gradient of each is an array as large as the logits.
        chosen = jnp.take_along_axis(logits, index, axis=-1).astype(dtype)
        total = jax.nn.logsumexp(jnp.where(counts, logits.astype(dtype), 0.0), axis=-1, keepdims=True)
        log_probs = jnp.maximum(jnp.where(counts, chosen, 0.0) - total, IMPOSSIBLE)
        of_states = interleave(jnp.broadcast_to(log_probs[..., -1:], log_probs.shape), log_probs)[..., :-1]
        differs = jnp.pad(texts[:, 1:-1] != texts[:, :-2], ((0, 0), (1, 0)))
        may_jump = jnp.pad(interleave(jnp.zeros_like(differs), differs), ((0, 0), (0, 1)))
        return CTCTrellis(of_states, jnp.where(may_jump, 0.0, IMPOSSIBLE).astype(dtype), frames, lengths)

    def scan(self, visit: Visit) -> tuple[Float[Array, "B S"], Any]:
        """The scores of all states after the last frame that counts, and what `visit` returns in each frame.

        Args:
          visit: of a frame. From its log-probabilities, and the scores before it of each state, of the state before
            that one and, where a path may jump, of the state before both, it makes the scores after it, and anything.
        """
        states = self.jumps.shape[1]

        def step(scores: Float[Array, "B S"], frame: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, Any]:
            log_probs, number = frame
            padded = jnp.pad(scores, ((0, 0), (2, 0)), constant_values=IMPOSSIBLE)
            sources = jnp.stack([scores, padded[:, 1 : 1 + states], padded[:, :states] + self.jumps])
            visited, output = visit(log_probs, sources)
            return jnp.where((number < self.frames)[:, None], visited, scores), output

        start = jnp.where(jnp.arange(states)[None] == 0, 0.0, IMPOSSIBLE).astype(self.jumps.dtype)
        frames = self.log_probs.swapaxes(0, 1), jnp.arange(self.log_probs.shape[1])
        return jax.lax.scan(step, jnp.broadcast_to(start, self.jumps.shape), frames)

    def ends(self, scores: Float[Array, "B S"]) -> Float[Array, "2 B"]:
        """The scores of a text's last blank and, if it has one, its last symbol."""
        pick = functools.partial(jnp.take_along_axis, scores, axis=1)
        blank, symbol = (pick(jnp.maximum(2 * self.lengths - back, 0)[:, None])[:, 0] for back in (0, 1))
        return jnp.stack([blank, jnp.where(self.lengths > 0, symbol, IMPOSSIBLE)])


def interleave(first: Array, second: Array) -> Array:
    """[..., N] and [..., N] as one array [..., 2 N], the elements of the two in turn."""
    return jnp.stack([first, second], -1).reshape(*first.shape[:-1], -1)
