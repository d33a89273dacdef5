"""Rescoring: the texts that a search returned, in the order that a language model gives them too."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from txjax.decoding.ctc_search import CTCTexts

Apply = Callable[[Int[Array, "N L"]], Float[Array, "N L V"]]


def language_log_probs(
    apply: Apply, texts: Sequence[Sequence[int]], begin: Sequence[int], end: Sequence[int] = (), multiple: int = 32
) -> Float64[np.ndarray, "N"]:
    """log p(text and its end | begin) of each text by a model of next tokens, such as a run of `Decoder`.

    Args:
      apply: of the model, from tokens to logits; no token's logits may depend on later ones. It is called once.
      texts: the tokens of each text, by the language model's own tokenizer.
      begin: at least one token, which stands before every text and is not counted.
      end: tokens that end a text, and are counted. If (), a text's end has no probability.
      multiple: rows are padded to a multiple of this length, so that a jitted `apply` compiles few shapes.
    """
    assert begin, "what is the first token predicted from?"
    rows = [[*begin, *text, *end] for text in texts]
    length = -(-max(map(len, rows), default=1) // multiple) * multiple
    tokens = np.stack([np.pad(np.array(row, np.int32), (0, length - len(row))) for row in rows])
    counted = np.arange(1, length)[None] < np.array([len(row) for row in rows])[:, None]
    counted &= np.arange(1, length)[None] >= len(begin)
    logits = apply(jnp.asarray(tokens))[:, :-1]
    log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
    chosen = jnp.take_along_axis(log_probs, jnp.asarray(tokens[:, 1:, None]), axis=-1)[..., 0]
    return np.where(counted, np.asarray(chosen, np.float64), 0.0).sum(1)


def rescore(texts: CTCTexts, language: Float[Array, "B K"], weight: float, bonus: float = 0.0) -> CTCTexts:
    """The texts by score + weight * language + bonus * symbols, the best first.

    Args:
      language: the log-probability of each text by a language model; any where there is no text.
    """
    exists = texts.scores > -jnp.inf
    added = jnp.where(exists, weight * language + bonus * texts.lengths, 0.0)
    return texts.select(texts.scores + added)
