"""Types that all of txjax shares: a batch, a mean, a training state, a user error.

Dimension letters, everywhere: B batch, L length, D width, H heads, K head size, F mlp, V vocab, N patches.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax.aliases import ALIASES

__all__ = ["Mean", "ObjectiveOutput", "UserError", "config_field"]

Batch = dict[str, jax.Array]
PyTree = Any


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Mean:
    """A sum and a count, so that averages stay exact over microbatches, padding, packing and hosts.

    Attributes:
      total: float32 [], the weighted sum.
      count: float32 [], the sum of the weights.
    """

    total: jax.Array
    count: jax.Array

    @staticmethod
    def of(values: jax.Array, weights: jax.Array | None = None) -> Mean:
        """The mean of `values` (any shape) with `weights` (the same shape). If None, all weights are 1."""
        values = values.astype(jnp.float32)
        if weights is None:
            return Mean(values.sum(), jnp.float32(values.size))
        weights = weights.astype(jnp.float32)
        return Mean((values * weights).sum(), weights.sum())

    def __add__(self, other: Mean) -> Mean:
        return Mean(self.total + other.total, self.count + other.count)

    @property
    def value(self) -> jax.Array:
        """total / count, or 0 if count is 0; NaN if count is NaN."""
        empty = self.count == 0
        return jnp.where(empty, 0.0, self.total / jnp.where(empty, 1.0, self.count))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ObjectiveOutput:
    """The output of an objective for one (micro)batch.

    Attributes:
      losses: the terms of the loss. The loss that is minimised is the sum of their values; they are separate
        because terms may count different things (masked tokens, sentence pairs). Counts never depend on parameters.
      metrics: all other metrics, by name.
      model_state: the model's mutable collections after the call ({} where it has none).
    """

    losses: dict[str, Mean]
    metrics: dict[str, Mean]
    model_state: dict[str, PyTree] = dataclasses.field(default_factory=dict)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TrainState:
    """The state that a train step reads and writes. It has no rng: a step's key is fold_in(key(seed), step).

    Attributes:
      step: int32 [], updates done.
      params: the trainable parameters; gradients and moments exist only for these.
      frozen: the other parameters, under the same paths.
      model_state: the model's mutable collections (BatchNorm statistics and the like).
      opt_state: the optimizer's state, sharded like `params`.
      skipped: int32 [2], updates dropped (`make_step`): in a row until now, and in all.
      ema: averages of `params`, float32, under the same paths; {} if the run has none.
    """

    step: jax.Array
    params: PyTree
    frozen: PyTree
    model_state: PyTree
    opt_state: PyTree
    skipped: jax.Array
    ema: PyTree = dataclasses.field(default_factory=dict)


class UserError(ValueError):
    """A user error, which the user can fix: printed as one line, exit code 2, no traceback.

    `UserError("config.model.widht", "a field of Decoder", near=["width"])` reads
    `config.model.widht: expected a field of Decoder; did you mean width?`
    """

    def __init__(
        self, field: str, expected: str, got: object = dataclasses.MISSING, near: Iterable[str] = (), hint: str = ""
    ):
        self.field = field
        self.expected = expected
        self.got = got
        self.near = tuple(near)
        self.hint = hint
        parts = [f"{field}: expected {expected}" + ("" if got is dataclasses.MISSING else f", got {got!r}")]
        if self.near:
            parts.append("did you mean " + " or ".join(self.near) + "?")
        if hint:
            parts.append(hint)
        super().__init__("; ".join(parts))

    @property
    def errors(self) -> tuple[UserError, ...]:
        """The error itself; `checks.UserErrors` has several."""
        return (self,)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles all arguments: the error of a worker process is raised again in the run's."""
        got_argument = {} if self.got is dataclasses.MISSING else {"got": self.got}
        return functools.partial(
            UserError, self.field, self.expected, near=self.near, hint=self.hint, **got_argument
        ), ()

    def with_path(self, place: str, root: str) -> UserError:
        """The same error with `root`, the component's own name in `field`, replaced by its path in the tree."""
        within = self.field == root or self.field.startswith(f"{root}.")
        field = place + self.field[len(root) :] if within else self.field
        return UserError(field, self.expected, self.got, self.near, self.hint)

    def with_hint(self, hint: str) -> UserError:
        """The same error with one more hint."""
        hints = "; ".join(part for part in (self.hint, hint) if part)
        return UserError(self.field, self.expected, self.got, self.near, hints)


class RunError(RuntimeError):
    """An error that stops a run and that no flag can fix: printed as one line.

    Attributes:
      code: the exit code.
    """

    code = 1


def require(module: str, package: str, field: str, extra: str = "vision") -> None:
    """Raises UserError, with the command that installs the extra, unless `module` is installed."""
    if importlib.util.find_spec(module) is None:
        hint = f"run in the checkout of txjax: pip install '.[{extra}]'"
        raise UserError(field, f"the package {package} to be installed", hint=hint)


def near_misses(name: str, choices: Iterable[str]) -> list[str]:
    """Up to three of `choices` similar to `name`.

    A choice that is the name with underscores for hyphens, or what txjax calls it (`aliases`), stands alone; otherwise
    they are the closest match, those that have the name as a word, other matches.
    """
    names = list(choices)
    ours = [alias for alias in (name.replace("-", "_"), *ALIASES.get(name, ())) if alias in names]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    words = [choice for choice in names if is_word_of(name, choice)]
    return ours[:1] or list(dict.fromkeys([*close[:1], *words, *close]))[:3]


def is_word_of(name: str, choice: str) -> bool:
    """Whether a name is part of another one, or abbreviated: `learning_rate` in `peak_lr`, `bs` and `batch_size`."""
    short = "".join(word[:1] for word in name.split("_"))
    words = choice.split("_")
    initials = "".join(word[:1] for word in words)
    return name in words or len(short) > 1 and short in words or len(name) > 1 and name == initials


def join_names(names: Sequence[str], most: int = 5) -> str:
    """`a, b, c and 4 more`: names in a message."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def config_field(
    default: Any = dataclasses.MISSING,
    *,
    factory: Any = dataclasses.MISSING,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    choices: tuple[Any, ...] | None = None,
    traced: bool = False,
    off: float | None = None,
    text: bool = False,
) -> Any:
    """A dataclass field with the range of its values, which `tree.check_fields` validates.

    Args:
      traced: whether the train step can be traced with the number as an argument, so that runs which differ in it can
        share one program (`train.traced`).
      off: the number at which the program omits an operation, so that it differs from the program for other numbers.
      text: whether a text in place of the component is the value of this field (`--config.init_from=runs/mae`).
    """
    limits = dict(above=above, at_least=at_least, at_most=at_most, below=below, choices=choices)
    metadata = {
        "limits": {k: v for k, v in limits.items() if v is not None},
        "traced": traced,
        "off": off,
        "text": text,
    }
    if factory is not dataclasses.MISSING:
        return dataclasses.field(default_factory=factory, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def is_on(value: float) -> bool:
    """Whether a number that disables something at 0 (`config_field(off=0)`) is not 0; True if it is traced."""
    return isinstance(value, jax.Array) or value != 0


def path_name(path: tuple[Any, ...]) -> str:
    """A jax key path as text: `layers/block/attention/query/kernel`."""
    return "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)


def flat_paths(tree: PyTree, is_leaf: Any = None) -> dict[str, Any]:
    """The leaves of `tree` by path name."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    return {path_name(path): leaf for path, leaf in leaves}


def spec(shape: tuple[int, ...], dtype: str) -> jax.ShapeDtypeStruct:
    """One array of an example or a batch, without data."""
    return jax.ShapeDtypeStruct(shape, np.dtype(dtype))
