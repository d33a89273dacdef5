"""Where a run's first parameters come from: runs, steps of them, and prefixes of paths."""

import dataclasses
from typing import Any

from txjax.errors import UserError
from txjax.transfer.resize import ResizeAxis
from txjax.types import config_field

FIELD = "config.init_from"


@dataclasses.dataclass
class From:
    """A run whose parameters this one starts from, or a part of it.

    Attributes:
      run: "WORKDIR" (its newest good step), "WORKDIR@best" or "WORKDIR@1500". If None, nothing is taken.
      here: the prefix of the paths that it gives, one or more whole steps; "" is the prefix of all paths.
      there: the prefix of the same parameters' paths in that run.
      omit: prefixes of paths here that it doesn't give: another origin does, or they are initialised.
      resize: how axes of another size there are brought to the size here. Without one, another size is an error.
    """

    run: str | None = config_field(None, text=True)
    here: str = ""
    there: str = ""
    omit: tuple[str, ...] = ()
    resize: tuple[ResizeAxis, ...] = ()

    def path_there(self, path: str) -> str | None:
        """The path in the source run; None for a parameter that this origin doesn't give."""
        if not is_under(path, self.here) or any(is_under(path, prefix) for prefix in self.omit):
            return None
        return "/".join(x for x in (self.there, path[len(self.here) :].strip("/")) if x)


def origins(init_from: Any) -> list[tuple[str, From]]:
    """The origins that name a run, each with its dotted path in the config.

    Raises:
      UserError: it is neither a text, nor a From, nor a tuple of these.
    """
    several = isinstance(init_from, tuple | list)
    pairs = []
    for i, entry in enumerate(init_from) if several else [(0, init_from)]:
        field = f"{FIELD}[{i}]" if several else FIELD
        if not isinstance(entry, str | From | None):
            raise UserError(field, "a text such as WORKDIR@best, or a From(run=...)", type(entry).__name__)
        origin = entry if isinstance(entry, From) else From(entry)
        for name, value in (("omit", origin.omit), ("resize", origin.resize)):
            if not isinstance(value, tuple | list):
                raise UserError(f"{field}.{name}", f"a tuple, such as ({value!r},)", type(value).__name__)
        if origin.run is not None:
            pairs.append((field, origin))
    return pairs


def is_under(path: str, prefix: str) -> bool:
    """Whether a prefix of whole steps is one of a path."""
    return not prefix or f"{path}/".startswith(f"{prefix}/")
