"""Optimizers as dataclasses: `build` returns an optax transformation.

All use the same order: clip the global norm, compute a direction, add the decay, multiply by the learning rate,

    parameter -= lr(s) * group.lr * (direction + weight_decay * group.weight_decay * parameter),

where the factor of `layer_decay` multiplies `group.lr`, and a parametrization's `Factors` multiply both factors. So
the weight decay is decoupled from the gradient (Loshchilov & Hutter 2019, AdamW) and, as in PyTorch, multiplied by the
learning rate. (Only LARS couples it.) States are float32 whatever the parameters are (a first moment may be stored in
`momentum_dtype`), and mirror them: the path of a parameter's leaf in the state ends in the parameter's path.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax

from txjax.axes import Axes
from txjax.errors import UserError
from txjax.optim.adafactor import scale_by_adafactor
from txjax.optim.groups import Group, assign, default_groups, find, of_adapter
from txjax.optim.lars import scale_by_trust
from txjax.optim.layer_decay import LayerDecay, steps_below_head
from txjax.optim.muon import scale_by_muon
from txjax.optim.schedules import Cosine, Schedule
from txjax.parametrization import RULES, Factors, Scaling, no_scaling, refuse
from txjax.sharding import is_axes
from txjax.types import PyTree, config_field, path_name

Part = optax.GradientTransformation
MOMENTUM_DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass
class Optimizer:
    """Base of all optimizers; a subclass computes the direction.

    Attributes:
      peak_lr: the learning rate at the schedule's peak.
      weight_decay: fraction of a parameter that one update subtracts, before the learning rate multiplies it.
      clip: the largest global norm of a gradient. If None, gradients are not clipped.
      groups: factors by parameter path; every parameter is in exactly one group.
      layer_decay: smaller learning rates for lower layers. If None, all are equal.
      rule: key in `parametrization.RULES`: how learning rates scale with a model's size. If None, no rule is known.
    """

    rule: ClassVar[str | None] = None

    peak_lr: float = config_field(1e-3, above=0, traced=True)
    schedule: Schedule = config_field(factory=Cosine)
    weight_decay: float = config_field(0.0, at_least=0, traced=True)
    clip: float | None = config_field(1.0, above=0, traced=True)
    groups: tuple[Group, ...] = config_field(factory=default_groups)
    layer_decay: LayerDecay | None = None

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        """The direction of descent, before decay and learning rate, given the parameters' logical axes."""
        raise NotImplementedError

    def order(self, direction: Part, decay: Part) -> tuple[Part, Part]:
        """The direction and the weight decay, in the order in which they are applied. Decoupled decay comes after."""
        return direction, decay

    def lr(self, num_steps: int) -> optax.Schedule:
        """The learning rate of each update, from 0. Raises UserError if the schedule doesn't fit the run."""
        return self.schedule(self.peak_lr, num_steps)

    def tuning(self, model: Any) -> "Optimizer":
        """The optimizer whose groups have the parameters that this model's adapter trains (`train_adapter`)."""
        return dataclasses.replace(self, groups=of_adapter(self.groups, getattr(model, "adapter", None)))

    def assign(self, paths: Iterable[str]) -> dict[str, Group]:
        """The group of every parameter of the model. Raises UserError unless each is in exactly one."""
        return assign(self.groups, paths)

    def frozen(self, path: str) -> bool:
        """Whether the groups freeze this parameter."""
        return not self.trained(path)

    def trained(self, path: str) -> bool:
        """Whether the groups train this parameter."""
        return find(self.groups, path).trainable

    def below_head(
        self, calls: Sequence[Sequence[str]], axes: dict[str, Axes], shapes: dict[str, tuple[int, ...]]
    ) -> dict[str, np.ndarray]:
        """`steps_below_head` of all parameters, trainable or not; nothing without `layer_decay`."""
        return {} if self.layer_decay is None else steps_below_head(calls, axes, shapes)

    def build(
        self,
        num_steps: int,
        axes: PyTree,
        below: Mapping[str, np.ndarray] | None = None,
        scaling: Callable[[str], Scaling | None] = no_scaling,
    ) -> optax.GradientTransformation:
        """The transformation for a run.

        Args:
          num_steps: updates of the whole run.
          axes: the logical axes of every trainable parameter, in the parameters' structure.
          below: the result of `below_head`. If None, there is no `layer_decay`.
          scaling: of the parameter with this path: the sizes of its part of the model relative to their base. None for
            a parameter whose learning rate doesn't depend on the size.

        Raises:
          UserError: a parameter has a scaling and the optimizer has no `rule`, or its axes have no names.
        """

        def by_path(factor: Callable[[str, Axes], Any]) -> PyTree:
            return jax.tree_util.tree_map_with_path(
                lambda path, names: factor(path_name(path), names), axes, is_leaf=is_axes
            )

        def factors(path: str, names: Axes) -> Factors:
            if (sizes := scaling(path)) is None:
                return Factors()
            if self.rule is None:
                raise refuse(type(self).__name__, [kind.__name__ for kind in (AdamW, Lion, SGD)])
            if not all(names):
                expected = f"names of the axes of {path}, from which its factors follow"
                hint = "nn.Linear, nn.Conv, nn.Embed and nn.parameter state them"
                raise UserError("config.model.parametrization", expected, tuple(names), hint=hint)
            return sizes.factors(names, RULES[self.rule])

        def rate(path: str, names: Axes) -> Any:
            factor = find(self.groups, path).lr * factors(path, names).lr
            return factor if self.layer_decay is None else factor * self.layer_decay.factor((below or {})[path])

        lr = by_path(rate)
        decay = by_path(lambda path, names: find(self.groups, path).weight_decay * factors(path, names).decay)
        direction = _of_scaled(self.direction(axes), by_path(lambda path, names: factors(path, names).gradient))

        def add_decay(updates: PyTree, params: PyTree) -> PyTree:
            return jax.tree.map(lambda u, p, factor: u + self.weight_decay * factor * p, updates, params, decay)

        def scale(updates: PyTree, params: PyTree) -> PyTree:
            return jax.tree.map(lambda u, factor: factor * u, updates, lr)

        return _in_float32(
            optax.chain(
                optax.identity() if self.clip is None else optax.clip_by_global_norm(self.clip),
                *self.order(direction, optax.stateless(add_decay)),
                optax.stateless(scale),
                optax.scale_by_learning_rate(self.lr(num_steps)),
            )
        )


@dataclasses.dataclass
class AdamW(Optimizer):
    """Kingma & Ba 2015, algorithm 1, with decoupled decay (Loshchilov & Hutter 2019, algorithm 2).

    Attributes:
      momentum_dtype: in which the first moment is stored between updates; it is computed in float32.
    """

    rule: ClassVar[str | None] = "adam"

    weight_decay: float = config_field(0.1, at_least=0, traced=True)
    b1: float = config_field(0.9, at_least=0, below=1, traced=True)
    b2: float = config_field(0.95, at_least=0, below=1, traced=True)
    eps: float = config_field(1e-8, above=0, traced=True)
    momentum_dtype: str = config_field("float32", choices=MOMENTUM_DTYPES)

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.b1, self.b2, self.eps, mu_dtype=self.momentum_dtype)


@dataclasses.dataclass
class Lion(Optimizer):
    """Chen et al. 2023, algorithm 2: the sign of a momentum. It needs a lower lr and a higher decay than AdamW.

    Attributes:
      momentum_dtype: in which the momentum is stored between updates; it is computed in float32.
    """

    rule: ClassVar[str | None] = "adam"  # the size of its updates doesn't depend on the gradient's size either

    peak_lr: float = config_field(1e-4, above=0, traced=True)
    weight_decay: float = config_field(1.0, at_least=0, traced=True)
    b1: float = config_field(0.9, at_least=0, below=1, traced=True)
    b2: float = config_field(0.99, at_least=0, below=1, traced=True)
    momentum_dtype: str = config_field("float32", choices=MOMENTUM_DTYPES)

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        return optax.scale_by_lion(self.b1, self.b2, mu_dtype=self.momentum_dtype)


@dataclasses.dataclass
class SGD(Optimizer):
    """Gradient descent with momentum, m = momentum * m + g (Sutskever et al. 2013 for Nesterov's form)."""

    rule: ClassVar[str | None] = "sgd"

    peak_lr: float = config_field(0.1, above=0, traced=True)
    momentum: float = config_field(0.9, at_least=0, below=1, traced=True)
    nesterov: bool = False

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        return optax.trace(self.momentum, self.nesterov)


@dataclasses.dataclass
class LARS(SGD):
    """You et al. 2017, algorithm 1: SGD in which the update of each layer's matrix is scaled to the matrix's norm.

    m = momentum * m + trust * |p| / |u| * u with u = g + weight_decay * p; for vectors and biases m = momentum * m + u.
    So the decay is coupled: it is part of the norm and the momentum. As in the code of MAE's linear probe (He et al.
    2022), the norm is that of u (the paper adds those of g and weight_decay * p), and the learning rate multiplies m
    (in the paper it is inside).

    Attributes:
      trust: eta, the length of a matrix's update at a learning rate of 1, relative to the matrix.
    """

    rule: ClassVar[str | None] = None

    trust: float = config_field(1e-3, above=0, traced=True)

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        return optax.chain(scale_by_trust(axes, self.trust), super().direction(axes))

    def order(self, direction: Part, decay: Part) -> tuple[Part, Part]:
        return decay, direction


@dataclasses.dataclass
class Adafactor(Optimizer):
    """Shazeer & Stern 2018, algorithm 4, without momentum; `peak_lr` is relative to a parameter's own size.

    Attributes:
      decay_exponent: c in the decay 1 - t^-c of the second moments.
      min_scale: epsilon_2, the lower bound of a parameter's scale.
    """

    peak_lr: float = config_field(1e-2, above=0, traced=True)
    decay_exponent: float = config_field(0.8, above=0, traced=True)
    min_scale: float = config_field(1e-3, above=0, traced=True)

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        return scale_by_adafactor(axes, self.decay_exponent, self.min_scale)


@dataclasses.dataclass
class Muon(AdamW):
    """Orthogonalised momentum for the matrices of the layers (Jordan et al. 2024), AdamW for all other parameters.

    Matrices are the kernels of products [inputs, outputs] and of convolutions [taps * input channels, features];
    depthwise convolutions map no channels to others, so AdamW has their kernels (`muon.hidden_matrix`).

    Attributes:
      momentum_dtype: of both.
      momentum: Nesterov momentum of the matrices.
      rms: root mean square of a matrix's direction. 0.2 is AdamW's in practice, so that both share one peak_lr and
        weight_decay (Liu et al. 2025, eq. 4).
    """

    rule: ClassVar[str | None] = None

    momentum: float = config_field(0.95, at_least=0, below=1, traced=True)
    rms: float = config_field(0.2, above=0, traced=True)

    def direction(self, axes: PyTree) -> optax.GradientTransformation:
        return scale_by_muon(axes, self.momentum, self.rms, self.momentum_dtype, rest=super().direction(axes))


def _of_scaled(direction: optax.GradientTransformation, factors: PyTree) -> optax.GradientTransformation:
    """The direction for gradients times these factors. Its state and its paths are the same."""
    if all(factor == 1 for factor in jax.tree.leaves(factors)):
        return direction

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        return direction.update(jax.tree.map(lambda u, factor: factor * u, updates, factors), state, params)

    return optax.GradientTransformation(direction.init, update)


def _in_float32(inner: optax.GradientTransformation) -> optax.GradientTransformation:
    """Casts parameters and gradients of `inner` to float32, hence its states."""

    def init(params: PyTree) -> PyTree:
        return inner.init(optax.tree.cast(params, jnp.float32))

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        return inner.update(optax.tree.cast(updates, jnp.float32), state, optax.tree.cast(params, jnp.float32))

    return optax.GradientTransformation(init, update)
