"""Normalised texts: one form for the transcripts that a model learns and for those that it is measured on."""

import dataclasses
import functools
import re
import unicodedata
from collections.abc import Callable

from txjax.errors import UserError
from txjax.types import config_field

_FORMS: dict[str, Callable[[str], str]] = {
    "NFC": functools.partial(unicodedata.normalize, "NFC"),
    "NFKC": functools.partial(unicodedata.normalize, "NFKC"),
    "keep": str,
}
_CASES: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "keep": str}
ENGLISH_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclasses.dataclass
class TextNormalization:
    """Case, punctuation and digits of a text. Runs of white space always become one space, none at the ends.

    The steps are those of the attributes, in their order. The defaults change nothing but white space.

    Attributes:
      unicode: the form of Unicode: "NFC", "NFKC" (ligatures, full-width letters and the like become plain letters), or
        "keep".
      replacements: texts that become others, such as {"&": " and "}; longer ones first.
      digits: the words that the digits 0 to 9 become one by one, such as `ENGLISH_DIGITS`; () keeps digits.
      case: "lower", "upper" or "keep".
      punctuation: "remove" makes spaces of punctuation and symbols (Unicode's categories P and S), or "keep".
      kept: the punctuation that stays all the same, such as the apostrophe.
    """

    unicode: str = config_field("keep", choices=("NFC", "NFKC", "keep"))
    replacements: dict[str, str] = config_field(factory=dict)
    digits: tuple[str, ...] = ()
    case: str = config_field("keep", choices=("lower", "upper", "keep"))
    punctuation: str = config_field("keep", choices=("remove", "keep"))
    kept: str = "'"

    def check(self) -> None:
        """Raises UserError unless there are ten digits, or none."""
        if len(self.digits) not in (0, 10):
            raise UserError("data.normalization.digits", "ten words, or ()", self.digits)

    def __call__(self, text: str) -> str:
        """The normalised text; normalised again, it stays the same unless replacements give texts that are replaced."""
        text = _FORMS[self.unicode](text)
        if self.replacements:
            longest_first = sorted(self.replacements, key=len, reverse=True)
            pattern = "|".join(re.escape(part) for part in longest_first)
            text = re.sub(pattern, lambda match: self.replacements[match.group()], text)
        if self.digits:
            text = re.sub("[0-9]", lambda match: f" {self.digits[int(match.group())]} ", text)
        text = _CASES[self.case](text)
        if self.punctuation == "remove":
            text = "".join(" " if unicodedata.category(c)[0] in "PS" and c not in self.kept else c for c in text)
        return " ".join(text.split())
