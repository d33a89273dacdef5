"""How fresh kernels are drawn: a standard deviation from the fans, and a factor for the ends of residual branches.

It goes wherever a kernel is born. So it also tells a layer what its model's size asks for (`Scaled`).
"""

import dataclasses

from txjax.parametrization import Role, Scaling
from txjax.types import setting


@dataclasses.dataclass
class Init:
    """Normal with standard deviation 1 / sqrt(fan-in), so that outputs are as large as inputs (LeCun et al. 1998)."""

    def std(self, fan_in: float, fan_out: float) -> float:
        """The standard deviation of a kernel's entries."""
        return fan_in**-0.5

    def residual(self, depth: int) -> float:
        """What the kernels that write into the residual stream are multiplied by, in a stack of `depth` blocks."""
        return 1.0

    def kernel(self, fan_in: int, fan_out: int, role: Role) -> float:
        """The standard deviation of the entries of a kernel in this role."""
        return self.std(fan_in, fan_out)

    def multiplier(self, role: Role) -> float:
        """What a product with a kernel in this role is multiplied by."""
        return 1.0

    def attention(self) -> float:
        """What the scores of attention are multiplied by, beside 1 / sqrt(head size)."""
        return 1.0

    def branch(self) -> float:
        """What a branch is multiplied by before it meets the residual stream."""
        return 1.0


@dataclasses.dataclass
class Xavier(Init):
    """Normal with variance 2 / (fan-in + fan-out) (Glorot and Bengio 2010)."""

    def std(self, fan_in: float, fan_out: float) -> float:
        return (2 / (fan_in + fan_out)) ** 0.5


@dataclasses.dataclass
class Normal(Init):
    """The same standard deviation for every kernel (Devlin et al. 2019: 0.02)."""

    stddev: float = setting(0.02, above=0, traced=True)

    def std(self, fan_in: float, fan_out: float) -> float:
        return self.stddev


@dataclasses.dataclass
class GPT2(Normal):
    """`Normal`, less by sqrt(residual branches) where a branch ends, two a block (Radford et al. 2019, 2.3)."""

    def residual(self, depth: int) -> float:
        return (2 * depth) ** -0.5


@dataclasses.dataclass
class Scaled(Init):
    """Another `Init` as it is at the base of a parametrization, and what follows from the size for a model's layers.

    Attributes:
      base: how the base's kernels are drawn.
    """

    base: Init
    scaling: Scaling

    def std(self, fan_in: float, fan_out: float) -> float:
        raise AssertionError("a kernel's role says how it is drawn")

    def residual(self, depth: int) -> float:
        return self.base.residual(round(depth / self.scaling.depth))

    def kernel(self, fan_in: int, fan_out: int, role: Role) -> float:
        return self.scaling.std(role) * self.base.std(*self.scaling.fans(fan_in, fan_out, role))

    def multiplier(self, role: Role) -> float:
        return self.scaling.multiplier(role)

    def attention(self) -> float:
        return self.scaling.attention()

    def branch(self) -> float:
        return self.scaling.branch()
