"""What a model sets in its parts: initialisers of kernels, and a factor for the ends of residual branches."""

import dataclasses
from typing import Any

from txjax.errors import UserError
from txjax.parametrization import Role, Scaling
from txjax.types import config_field


@dataclasses.dataclass
class Init:
    """Normal with standard deviation 1 / sqrt(fan-in), so that outputs are as large as inputs (LeCun et al. 1998).

    It holds at the parametrization's base size; `Scaling` has the factors for other sizes.
    """

    def std(self, fan_in: float, fan_out: float) -> float:
        """The standard deviation of a kernel's entries."""
        return fan_in**-0.5

    def residual_scale(self, branches: int) -> float:
        """The factor of kernels that write into the residual stream, in a stack with so many branches."""
        return 1.0

    def kernel(self, fan_in: int, fan_out: int, role: Role, scaling: Scaling) -> float:
        """The standard deviation of the entries of a kernel in this role, in a model of this size."""
        return scaling.std(role) * self.std(*scaling.base_fans(fan_in, fan_out, role))


@dataclasses.dataclass
class Xavier(Init):
    """Normal with variance 2 / (fan-in + fan-out) (Glorot and Bengio 2010)."""

    def std(self, fan_in: float, fan_out: float) -> float:
        return (2 / (fan_in + fan_out)) ** 0.5


@dataclasses.dataclass
class Normal(Init):
    """The same standard deviation for every kernel (Devlin et al. 2019: 0.02)."""

    stddev: float = config_field(0.02, above=0, traced=True)

    def std(self, fan_in: float, fan_out: float) -> float:
        return self.stddev


@dataclasses.dataclass
class GPT2(Normal):
    """`Normal`, divided by sqrt(residual branches) at the end of a branch (Radford et al. 2019, 2.3)."""

    def residual_scale(self, branches: int) -> float:
        return branches**-0.5


@dataclasses.dataclass(frozen=True)
class KernelInit:
    """How a part's kernels are drawn, and which factors they have; the model sets it in all of its parts.

    Attributes:
      initial: the initialiser, from a kernel's fan-in and fan-out.
      scaling: factors that follow from the model's size, of a kernel's initialisation and of its product.
      residual_scale: the factor, at initialisation, of kernels that write into the residual stream.
    """

    initial: Init = dataclasses.field(default_factory=Init)
    scaling: Scaling = Scaling()
    residual_scale: float = 1.0

    def std(self, fan_in: int, fan_out: int, role: Role) -> float:
        """The standard deviation of the entries of a kernel in this role."""
        return self.initial.kernel(fan_in, fan_out, role, self.scaling)


def set_model_fields(template: Any, where: str, **fields: Any) -> Any:
    """A copy of a module, without a parent, with the fields that the model sets.

    Raises:
      UserError: the config sets one of them at `where` too.
    """
    for name in fields:
        if (value := getattr(template, name)) is not None:
            raise UserError(f"{where}.{name}", "nothing: the model sets it from its own fields", value)
    return template.clone(parent=None, name=None, **fields)
