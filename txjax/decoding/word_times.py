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
    # Character c begins with the first symbol whose text is longer than c. Its last symbol is the one before the next
    # character's first: a part of a character counts as one, too.
    sizes = np.maximum.accumulate([len(text) for text in texts])
    words = []
    for match in re.finditer(r"\S+", texts[-1] if texts else ""):
        first, last, after = np.searchsorted(sizes, [match.start(), match.end() - 1, match.end()], side="right")
        last = max(last, after - 1)
        words.append(TimedWord(match.group(), round(float(starts[first]), 3), round(float(ends[last]), 3)))
    return words
