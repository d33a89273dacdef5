"""When the words of a text are said, by its forced alignment."""

import dataclasses
import re

import numpy as np
from jaxtyping import Float, Int

from txjax.data import Tokenizer


@dataclasses.dataclass(frozen=True)
class TimedWord:
    """A word, and the seconds at which it begins and ends, to a millisecond."""

    word: str
    start: float
    end: float


def word_times(
    tokenizer: Tokenizer,
    symbols: Int[np.ndarray, "L"],
    starts: Float[np.ndarray, "L"],
    ends: Float[np.ndarray, "L"],
) -> list[TimedWord]:
    """The words of a text, which white space separates, each from its first symbol's start to its last one's end.

    A word that is only a part of a symbol has the times of that symbol.

    Args:
      starts, ends: of each symbol, in seconds.
    """
    texts = [tokenizer.decode(symbols[: count + 1]) for count in range(len(symbols))]
    sizes = np.maximum.accumulate([len(text) for text in texts])  # a character's symbol is the first that reaches it
    words = []
    for match in re.finditer(r"\S+", texts[-1] if texts else ""):
        first, last = np.searchsorted(sizes, [match.start(), match.end() - 1], side="right")
        words.append(TimedWord(match.group(), round(float(starts[first]), 3), round(float(ends[last]), 3)))
    return words
