"""How a model's numbers follow its size, so that a learning rate that was found on a small one serves a large one.

All is relative to a base: a model of the base's sizes is the standard one, bit for bit. What grows with the width is
told by logical axes, so that no layer and no model has rules of its own. `docs/parametrization.md` has the tables.
"""

import dataclasses
import enum
from typing import NamedTuple

from txjax.types import UserError, config_field

Axes = tuple[str | None, ...]

# Logical axes that grow with the width; all others (vocab, pixels, classes, positions, scores, ...) stay as they are.
WIDE = frozenset({"embed", "width", "mlp", "heads", "kv_heads", "head_size"})
_STACKED, _COPIES = "layers", ("layers", "experts")


class Role(enum.Enum):
    """What a parameter leads from and to, where "wide" grows with the width (Yang et al. 2022, table 3)."""

    INPUT = "from fixed to wide: embeddings, and all vectors over the width, such as biases and the scales of norms"
    HIDDEN = "from wide to wide"
    OUTPUT = "from wide to fixed: heads, and routers to experts"
    FIXED = "from fixed to fixed: a bias of logits"


def role(in_axes: Axes, axes: Axes) -> Role:
    """The role of a kernel from dimensions with these logical axes to those."""
    wide = any(name in WIDE for name in in_axes), any(name in WIDE for name in axes)
    return {(False, True): Role.INPUT, (True, True): Role.HIDDEN, (True, False): Role.OUTPUT}.get(wide, Role.FIXED)


def role_of(path: str, axes: Axes) -> Role:
    """The role of a parameter by its path and all its logical axes."""
    own = tuple(name for name in axes if name not in _COPIES)
    if path.endswith("kernel"):
        return role(own[:1], own[-1:])
    return role((), own)


class Factors(NamedTuple):
    """What a parameter's numbers in the optimizer are multiplied by.

    Attributes:
      lr: its learning rate.
      decay: its weight decay. The learning rate multiplies that too; the product is the base's.
      gradient: its gradient, before it meets the optimizer's eps, so that it is as large beside it as the base's.
    """

    lr: float = 1.0
    decay: float = 1.0
    gradient: float = 1.0


class Rule(NamedTuple):
    """How learning rates follow the size under one kind of update.

    Attributes:
      lr: by role, the exponent of the width; 0 where a role isn't named.
      depth: of the layers' parameters, the exponent of the depth: `depth[0] * alpha + depth[1]`, alpha of `Scaling`.
      eps: updates don't depend on the gradient's size but for an eps.
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
    """A model's sizes over those of its base, and what follows from them: nothing, where they are the base's.

    Attributes:
      width, head_size, depth: the ratios.
      alpha: branches of the residual stream are multiplied by depth^-alpha.
    """

    width: float = 1.0
    head_size: float = 1.0
    depth: float = 1.0
    alpha: float = 0.0

    def base_fans(self, fan_in: int, fan_out: int, role: Role) -> tuple[float, float]:
        """Those of the base's kernel, of this one's."""
        from_wide, to_wide = role in (Role.HIDDEN, Role.OUTPUT), role in (Role.HIDDEN, Role.INPUT)
        return fan_in / (self.width if from_wide else 1), fan_out / (self.width if to_wide else 1)

    def std(self, role: Role) -> float:
        """Of a kernel's entries at first, over those of the base's kernel (Yang et al. 2022, table 8)."""
        return self.width**-0.5 if role is Role.HIDDEN else 1.0

    def multiplier(self, role: Role) -> float:
        """Of a kernel's product (Yang et al. 2022, table 8)."""
        return 1 / self.width if role is Role.OUTPUT else 1.0

    def attention(self) -> float:
        """Of the scores, beside 1 / sqrt(head size): with it they fall by 1 / head size (Yang et al. 2022, 4.1)."""
        return self.head_size**-0.5

    def branch(self) -> float:
        """Of what a branch adds to the residual stream (Yang et al. 2023, equation 1)."""
        return self.depth**-self.alpha

    def factors(self, path: str, axes: Axes, rule: Rule) -> Factors:
        """Of a parameter, in an optimizer that keeps this rule."""
        role, layer = role_of(path, axes), _STACKED in axes
        lr = self.width ** rule.lr.get(role, 0.0)
        gradient = 1.0 if role is Role.FIXED else self.width
        if layer:
            lr *= self.depth ** (rule.depth[0] * self.alpha + rule.depth[1]) if self.alpha else 1.0
            gradient *= self.depth**self.alpha
        return Factors(lr, 1 / lr, gradient if rule.eps else 1.0)


@dataclasses.dataclass
class Parametrization:
    """What follows from a model's sizes beside its shapes."""

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        """That of a model of these sizes; None = nothing follows."""
        raise NotImplementedError


@dataclasses.dataclass
class Standard(Parametrization):
    """Nothing but how kernels are drawn (`initial`) depends on the sizes."""

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        return None


@dataclasses.dataclass
class MuP(Parametrization):
    """The maximal update parametrization (Yang et al. 2022): features and their changes are as large at any width.

    Drawn, multiplied and updated as in table 8, relative to a base; scores of attention are divided by the head size,
    not by its root. MLPs, heads times head size, and a masked autoencoder's decoder grow along with the width.

    Attributes:
      base_width: the width at which nothing differs from `Standard`: that of the model whose learning rate was tuned.
      base_head_size: the head size of that model.
    """

    base_width: int = config_field(at_least=1)
    base_head_size: int = config_field(at_least=1)

    def scaling(self, width: int, head_size: int, depth: int) -> Scaling | None:
        return Scaling(width / self.base_width, head_size / self.base_head_size)


@dataclasses.dataclass
class DepthMuP(MuP):
    """`MuP` at any depth too: each branch of the residual stream is multiplied by depth^-1/2 (Yang et al. 2023).

    The learning rates of the layers' parameters follow (table 1). For blocks that don't normalise the stream itself.

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
    """`DepthMuP` with the exponent 1, which leaves Adam's learning rates alone (Dey et al. 2025, table 1)."""

    alpha: float = config_field(1.0, above=0, at_most=1)


def refuse(optimizer: str, known: list[str]) -> UserError:
    """The error that an optimizer has no rule."""
    hint = "no published rule says how its learning rates follow the size; Standard() takes any optimizer"
    return UserError("config.optimizer", "one of " + ", ".join(known) + " under MuP", optimizer, hint=hint)
