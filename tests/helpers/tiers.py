"""The tiers of tests: marks that `-m` has to name for their tests to run."""

import re

TIERS = {"mesh", "slow", "score"}
HINT = "tests marked mesh, slow or score run where -m names all of their marks: -m mesh, -m 'slow and mesh', ..."


def named(expression: str) -> set[str]:
    """The tiers that an expression of `-m` asks for."""
    return set(re.findall(r"(?<!not )\b\w+", expression)) & TIERS
