"""Rescoring: the texts that a search returned, in the order that a language model gives them too."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from txjax.decoding.ctc_search import CTCTexts
from txjax.nn import Logits

CHUNK = 16  # positions whose logits are in memory at a time


class LanguageRows(NamedTuple):
    """Texts as a language model reads them.

    Attributes:
      tokens: int32, with the tokens around a text; 0 behind them.
      counted: which tokens have a probability: a text's, and those of its end.
    """

    tokens: Int[np.ndarray, "N L"]
    counted: Bool[np.ndarray, "N L"]


def language_rows(
    texts: Sequence[Sequence[int] | np.ndarray],
    begin: Sequence[int],
    end: Sequence[int] = (),
    multiple: int = 32,
    most: int | None = None,
) -> LanguageRows:
    """Texts as rows of one length.

    Args:
      texts: the tokens of each text, by the language model's own tokenizer.
      begin: at least one token, which stands before every text and is not counted.
      end: tokens that end a text, and are counted. If (), a text's end has no probability.
      multiple: rows are padded to a multiple of this length, so that few shapes are compiled.
      most: the length that is padded to, at most; longer texts stay as they are. If None, any.
    """
    assert begin, "what is the first token predicted from?"
    rows = [[*begin, *text, *end] for text in texts]
    longest = max(map(len, rows), default=1)
    rounded = -(-longest // multiple) * multiple
    length = rounded if most is None else max(longest, min(rounded, most))
    tokens = np.stack([np.pad(np.array(row, np.int32), (0, length - len(row))) for row in rows])
    column = np.arange(length)[None]
    counted = (column >= len(begin)) & (column < np.array([len(row) for row in rows])[:, None])
    return LanguageRows(tokens, counted)


def language_log_probs(apply: Callable[[Int[Array, "N L"]], Any], rows: LanguageRows) -> Float[Array, "N"]:
    """log p(text and its end | begin) of each row, float32. Can be traced.

    Args:
      apply: a model of next tokens, such as a run of `Decoder`, from tokens to logits [N L V] (`nn.Logits`, or an
        array); no token's logits may depend on later ones.
    """

    def log_prob(logits: Float[Array, "N C V"], tokens: Int[Array, "N C"]) -> Float[Array, "N C"]:
        log_probs = jax.nn.log_softmax(logits.astype(jnp.float32))
        return jnp.take_along_axis(log_probs, tokens[..., None], axis=-1)[..., 0]

    tokens, counted = map(jnp.asarray, rows)
    of_tokens = Logits.of(apply(tokens))[:, :-1].reduce(log_prob, tokens[:, 1:], chunk=CHUNK)
    return jnp.where(counted[:, 1:], of_tokens, 0.0).sum(1)


def rescore(texts: CTCTexts, language: Float[Array, "B K"], weight: float, bonus: float = 0.0) -> CTCTexts:
    """The texts by score + weight * language + bonus * symbols, the best first.

    Args:
      language: the log-probability of each text by a language model; any where there is no text.
    """
    exists = texts.scores > -jnp.inf
    added = jnp.where(exists, weight * language + bonus * texts.lengths, 0.0)
    return texts.select(texts.scores + added)
