"""Parametrizations that scale with a model's size, so that a learning rate transfers from a small one to a large one.

All is relative to a base: a model of the base's sizes is the standard one, bit for bit. Logical axes determine what
scales with the width, so no layer and no model has its own rules. `docs/parametrization.md` has the tables.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import NamedTuple

from txjax.axes import STACKED, Axes, Names
from txjax.errors import UserError
from txjax.types import config_field

# Logical axes that scale with the width; all others (vocab, pixels, classes, positions, scores, ...) don't.
WIDE = frozenset({"embed", "width", "mlp", "heads", "kv_heads", "head_size"})


class Role(enum.Enum):
    """A parameter's input and output, where "wide" dimensions scale with the width (Yang et al. 2022, table 3)."""

    INPUT = "from fixed to wide: embeddings, and all vectors over the width, such as biases and the scales of norms"
    HIDDEN = "from wide to wide"
    OUTPUT = "from wide to fixed: heads, and routers to experts"
    FIXED = "from fixed to fixed: a bias of logits"


def role(in_axes: Names, axes: Names) -> Role:
    """The role of a kernel from the logical axes of its input and of its output."""
    wide = any(name in WIDE for name in in_axes), any(name in WIDE for name in axes)
    return {(False, True): Role.INPUT, (True, True): Role.HIDDEN, (True, False): Role.OUTPUT}.get(wide, Role.FIXED)


def role_of(axes: Axes) -> Role:
    """The role of a parameter from its logical axes."""
    return role(axes.inside, axes.outside)


class Factors(NamedTuple):
    """The factors of a parameter's numbers in the optimizer.

    Attributes:
      lr: of the learning rate.
      decay: of the weight decay. The learning rate multiplies that too; the product of both factors is 1.
      gradient: of the gradient, so that its ratio to the optimizer's eps is the base's.
    """

    lr: float = 1.0
    decay: float = 1.0
    gradient: float = 1.0


class Rule(NamedTuple):
    """How learning rates scale with the size for one kind of update.

    Attributes:
      lr: the exponent of the width by role; 0 for a role that is missing.
      depth: the exponent of the depth for the layers' parameters: `depth[0] * alpha + depth[1]`, alpha of `Scaling`.
      eps: whether updates depend on the gradient's size only by an eps.
    """

    lr: dict[Role, float]
    depth: tuple[float, float]
    eps: bool


# Yang et al. 2022, table 8 (width); Yang et al. 2023, table 1, and Dey et al. 2025, table 1 (depth, AdamW).
RULES = {
    "adam": Rule({Role.HIDDEN: -1.0}, (1.0, -1.0), eps=True),
    "sgd": Rule({Role.INPUT: 1.0, Role.OUTPUT: 1.0}, (2.0, -1.0), eps=False),
}


@dataclasses.dataclass(frozen=True)
class Scaling:
    """A model's sizes relative to its base, and the factors that follow from them: 1 if they are the base's.

    Attributes:
      width, head_size, depth: the ratios.
      alpha: branches of the residual stream are multiplied by depth^-alpha.
    """

    width: float = 1.0
    head_size: float = 1.0
    depth: float = 1.0
    alpha: float = 0.0

    def base_fans(self, fan_in: int, fan_out: int, role: Role) -> tuple[float, float]:
        """The fans of the base's kernel, from the fans of this model's."""
        from_wide = role in (Role.HIDDEN, Role.OUTPUT)
        to_wide = role in (Role.HIDDEN, Role.INPUT)
        return fan_in / (self.width if from_wide else 1), fan_out / (self.width if to_wide else 1)

    def std(self, role: Role) -> float:
        """The ratio of a kernel's initial standard deviation to the base's (Yang et al. 2022, table 8)."""
        return self.width**-0.5 if role is Role.HIDDEN else 1.0

    def multiplier(self, role: Role) -> float:
        """The factor of a kernel's product (Yang et al. 2022, table 8)."""
        return 1 / self.width if role is Role.OUTPUT else 1.0

    def attention(self) -> float:
        """The factor of the scores: with 1 / sqrt(head size) they scale by 1 / head size (Yang et al. 2022, 4.1)."""
        return self.head_size**-0.5

    def branch(self) -> float:
        """The factor of a branch's output (Yang et al. 2023, equation 1)."""
        return self.depth**-self.alpha

    def factors(self, axes: Axes, rule: Rule) -> Factors:
        """The factors of a parameter in an optimizer with this rule."""
        role = role_of(axes)
        layer = STACKED in axes
        lr = self.width ** rule.lr.get(role, 0.0)
        gradient = 1.0 if role is Role.FIXED else self.width
        if layer:
            lr *= self.depth ** (rule.depth[0] * self.alpha + rule.depth[1]) if self.alpha else 1.0
            gradient *= self.depth**self.alpha
        return Factors(lr, 1 / lr, gradient if rule.eps else 1.0)


@dataclasses.dataclass
class Parametrization:
    """Base of parametrizations: what depends on a model's sizes besides its shapes."""

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        """The scaling of a model of these sizes; None if nothing depends on them."""
        raise NotImplementedError


@dataclasses.dataclass
class Standard(Parametrization):
    """The standard parametrization: only the initialisation of kernels (`initial`) depends on the sizes."""

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        return None


@dataclasses.dataclass
class MuP(Parametrization):
    """The maximal update parametrization (Yang et al. 2022): features and their updates are as large at any width.

    Initialisation, multipliers and updates are those of table 8, relative to a base; attention scores are divided by
    the head size, not by its root. MLPs, heads times head size, and MAE's decoder scale with the width.

    Attributes:
      base_width: the width of the model whose learning rate was tuned; at it nothing differs from `Standard`.
      base_head_size: the head size of that model.
    """

    base_width: int = config_field(at_least=1)
    base_head_size: int = config_field(at_least=1)

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        return Scaling(width / self.base_width, head_size / self.base_head_size)


@dataclasses.dataclass
class DepthMuP(MuP):
    """`MuP` at any depth too: each branch of the residual stream is multiplied by depth^-1/2 (Yang et al. 2023).

    The learning rates of the layers' parameters scale too (table 1). For blocks that don't normalise the stream itself.

    Attributes:
      base_depth: the depth at which nothing differs from `MuP`.
      alpha: the exponent.
    """

    base_depth: int = config_field(at_least=1)
    alpha: float = config_field(0.5, above=0, at_most=1)

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        ratios = width / self.base_width, head_size / self.base_head_size, depth / self.base_depth
        return Scaling(*ratios, alpha=self.alpha)


@dataclasses.dataclass
class CompleteP(DepthMuP):
    """`DepthMuP` with the exponent 1, for which Adam's learning rates don't scale (Dey et al. 2025, table 1)."""

    alpha: float = config_field(1.0, above=0, at_most=1)


def no_scaling(path: str) -> None:
    """The scaling of every parameter where nothing depends on the sizes."""


def scaling_by_path(scalings: Mapping[str, Scaling | None]) -> Callable[[str], Scaling | None]:
    """The scaling of a parameter by its path: that of the longest of these prefixes, one or more steps of a path."""

    def scaling(path: str) -> Scaling | None:
        return scalings[max((p for p in scalings if not p or f"{path}/".startswith(f"{p}/")), key=len)]

    return scaling


def refuse(optimizer: str, known: list[str]) -> UserError:
    """The error for an optimizer without a rule."""
    hint = "no published rule says how its learning rates follow the size; Standard() takes any optimizer"
    return UserError("config.optimizer", "one of " + ", ".join(known) + " under MuP", optimizer, hint=hint)


def head_size(width: int, heads: int, size: int | None = None) -> int:
    """The size of one head. Raises UserError if `heads` doesn't divide `width`."""
    if size is None and width % heads:
        raise UserError("config.model.heads", f"a divisor of the width {width}", heads)
    return size or width // heads
