"""Biases alone."""

import dataclasses
from collections.abc import Iterable
from typing import ClassVar

from txjax.nn.adapters.adapter import Adapter


@dataclasses.dataclass
class BitFit(Adapter):
    """Adds nothing: with `optim.train_adapter` the model's own biases are trained (Ben-Zaken et al. 2022).

    By default every bias, norms' too. `paths=".*(attention/query|mlp/up)"` has the two that the paper trains alone (3,
    b_q and b_m2 of its equations). `paths` chooses modules that have a bias. Merging it leaves the parameters as they
    are.
    """

    name: ClassVar[str] = "bitfit"
    of: ClassVar[str] = "bias"

    @property
    def trained(self) -> str:
        return f"({self.paths})/bias"

    def check(self, offered: Iterable[str], params: Iterable[str]) -> None:
        """Raises UserError if `paths` matches no module with a bias."""
        super().check([path.removesuffix("/bias") for path in params if path.endswith("/bias")], params)
