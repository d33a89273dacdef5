"""Forced alignment: in which frames a model of CTC has each symbol of a given text."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from txjax.nn.audio.ctc_trellis import IMPOSSIBLE, CTCTrellis


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Alignment:
    """The most likely path of each text. Of a text that has none, all symbols are in no frame.

    Attributes:
      path: int32, the class in each frame; the blank behind an example's frames.
      starts: int32, the first frame of each symbol; 0 behind a text's end.
      ends: int32, the frame after the last one of each symbol; 0 behind a text's end.
      scores: float32, the log-probability of the path; -inf if there is none.
    """

    path: Int[Array, "B F"]
    starts: Int[Array, "B U"]
    ends: Int[Array, "B U"]
    scores: Float[Array, "B"]


def align(
    logits: Float[Array, "B F V"],
    frames: Int[Array, "B"],
    symbols: Int[Array, "B U"],
    lengths: Int[Array, "B"],
    blank: int = -1,
) -> Alignment:
    """The most likely path of each text, by the Viterbi algorithm on the trellis of CTC. To be jitted.

    Args:
      logits: of a model; those behind an example's frames are not read.
      frames: the number of frames of each example.
      symbols: the classes of a text; any behind its end.
      lengths: the number of symbols.
      blank: the class of the blank; a negative one counts from the last.
    """
    trellis = CTCTrellis.of(logits, frames, symbols, lengths, blank)

    def take_best(log_probs: jax.Array, sources: jax.Array) -> tuple[jax.Array, jax.Array]:
        return sources.max(0) + log_probs, sources.argmax(0).astype(jnp.int8)

    final_scores, steps = trellis.scan(take_best)
    ends = trellis.ends(final_scores)
    last = 2 * lengths - ends.argmax(0)
    numbers = jnp.arange(logits.shape[1])

    def step_back(state: jax.Array, frame: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        steps_of_states, number = frame
        step = jnp.take_along_axis(steps_of_states, state[:, None], axis=1)[:, 0]
        return state - jnp.where(number < frames, step, 0), state

    _, states = jax.lax.scan(step_back, last, (steps, numbers), reverse=True)
    exists = ends.max(0) > IMPOSSIBLE / 2
    counts = (numbers[None] < frames[:, None]) & exists[:, None]
    states = jnp.where(counts, states.T, 0)  # the first blank
    of_symbols = 2 * jnp.arange(symbols.shape[1]) + 1
    inside = states[:, :, None] == of_symbols[None, None]
    is_symbol = states % 2 == 1
    classes = jnp.take_along_axis(symbols, states // 2 * is_symbol, axis=1)
    return Alignment(
        path=jnp.where(is_symbol, classes, blank % logits.shape[2]).astype(jnp.int32),
        starts=inside.argmax(1).astype(jnp.int32),
        ends=jnp.max(inside * (numbers + 1)[None, :, None], axis=1).astype(jnp.int32),
        scores=jnp.where(exists, ends.max(0), -jnp.inf).astype(jnp.float32),
    )
