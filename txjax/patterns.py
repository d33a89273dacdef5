"""Regular expressions for paths of parameters and modules, as users write them in configs."""

import re

from txjax.errors import UserError


def matches_path(pattern: str, path: str, field: str) -> bool:
    """Whether the pattern, the value of `field`, matches all of the path. Raises UserError if it is invalid."""
    try:
        return re.fullmatch(pattern, path) is not None
    except re.error as error:
        raise UserError(field, "a regular expression", pattern, hint=f"it is invalid: {error}") from None
