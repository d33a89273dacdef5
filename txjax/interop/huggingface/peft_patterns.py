"""Regular expressions for names of modules in the options of peft, whose time is bounded for any file."""

from __future__ import annotations

import re

from txjax.errors import UserError

_LONGEST = 10_000  # characters
_REPETITIONS = 3  # more of them in a row take a time that grows with a higher power of the name's length
_LITERALS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)  # escaped characters and sets of characters
_REPEATED = re.compile(r"[*+]|\{")
_BACKTRACKING = re.compile(r"\)[*+{]|\(\?(?!:)")  # a repeated group; a group that is more than a group


def module_pattern(text: str, field: str) -> re.Pattern[str]:
    """The pattern that peft matches with the end of a module's name, from a dot on.

    Repeated groups, and more than three repetitions, are refused: for some names their time has no bound in practice,
    and names of modules need none of them.

    Raises:
      UserError: the text, a key of `field`, is no regular expression, or one of these.
    """
    shape = _LITERALS.sub("x", text)
    if len(text) > _LONGEST or len(_REPEATED.findall(shape)) > _REPETITIONS or _BACKTRACKING.search(shape):
        expected = f"regular expressions without repeated groups and with at most {_REPETITIONS} repetitions"
        raise UserError(field, expected, text[:100])
    try:
        return re.compile(rf"(.*\.)?({text})$")
    except (re.error, RecursionError, OverflowError) as error:
        raise UserError(field, "regular expressions", text[:100], hint=f"it is invalid: {error}") from None
