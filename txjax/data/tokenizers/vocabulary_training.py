"""Training of a tokenizer by the `tokenizers` library, whose time and errors are bounded for any text."""

from collections.abc import Callable, Iterator
from typing import Any

from txjax.errors import UserError

# Characters of a word that the library sees at once. Its time grows with the square of a word's length, and with words
# of a megabyte it does not end, or ends in a segmentation fault.
LONGEST_WORD = 5_000

# Returns an iterator for another pass over the texts.
Pass = Callable[[], Iterator[list[str]]]


def train_tokenizer(tokenizer: Any, texts: Pass, trainer: Any) -> None:
    """Trains a `tokenizers.Tokenizer`. Of a word of more than `LONGEST_WORD` characters it sees pieces of that length.

    Raises:
      UserError: the trainer's size is too small for the characters of the texts.
    """
    from tokenizers import pre_tokenizers

    words = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.FixedLength(LONGEST_WORD)])
    try:
        tokenizer.train_from_iterator(texts(), trainer)
    except Exception as error:
        if type(error) is not Exception:  # of the texts, not of the library
            raise
        raise UserError(
            "data.tokenizer.size", "a number for the characters of the text", trainer.vocab_size, hint=str(error)
        ) from error
    tokenizer.pre_tokenizer = words


def has_long_word(text: str) -> bool:
    """Whether a word between spaces is longer than `LONGEST_WORD`."""
    return len(text) > LONGEST_WORD and max(map(len, text.split()), default=0) > LONGEST_WORD


def no_characters() -> UserError:
    """The error for texts from which no piece of a vocabulary is learned."""
    return UserError("data.tokenizer.features", "texts with characters to learn a vocabulary from", "none")
