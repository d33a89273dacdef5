"""Shares of data sets of unequal sizes, such as languages: large ones less often, small ones more often."""

import dataclasses
from collections.abc import Mapping

from txjax.types import config_field


@dataclasses.dataclass
class Temperature:
    """Shares in proportion to size^alpha (Lample and Conneau 2019, 3.1; Conneau et al. 2020), for `Mixture.weights`.

    alpha = 1 / T for a sampling temperature T (Arivazhagan et al. 2019). XLM has 0.5 for the text of its vocabulary
    and 0.7 for its training, XLM-R 0.3.

    Attributes:
      alpha: 1 is in proportion to the sizes, near 0 all parts have nearly equal shares.
    """

    alpha: float = config_field(0.5, above=0, at_most=1)

    def weights(self, sizes: Mapping[str, int]) -> dict[str, float]:
        """The weight of each part, by its number of examples."""
        return {name: float(size) ** self.alpha for name, size in sizes.items()}
