"""Which experiments can be one program: those that differ in numbers which a trace may take as arguments.

Nobody keeps a list of such numbers. Each that differs is replaced by an argument, and the step is traced: where the
trace asks for its value (a depth, a batch's size, a dropout of 0), the number belongs to the program.
"""

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax import sharding, tree
from txjax.experiment import Experiment
from txjax.optim import Schedule
from txjax.train.state import batch_spec, lay_out
from txjax.train.step import make_step
from txjax.types import UserError

SEED = "config.seed"
RATES = "config.optimizer.schedule"
# Where a number is read by the program alone. The loop, which all share, reads the others.
TRACED = ("config.model.", "config.objective.", "config.optimizer.", "config.ema.", "config.spikes.", SEED)
DATA = "config.data."
OWN = (DATA, "config.trackers", RATES)  # each member has its own, whatever it is

Values = dict[str, Any]


@dataclasses.dataclass
class Table(Schedule):
    """The learning rate of each update, from a table.

    Attributes:
      rates: float32 [num_steps].
    """

    rates: Any = None

    def __call__(self, peak_lr: float, num_steps: int) -> Callable[[Any], jax.Array]:
        return lambda step: self.rates[step]


def leaves(experiment: Experiment) -> Values:
    """The plain values of the tree and the classes of its components, by dotted path."""
    found: Values = {}
    for path, node in tree.walk(experiment):
        if dataclasses.is_dataclass(node):
            found[f"{path}.class"] = type(node)
        elif not isinstance(node, dict | tuple | list):
            found[path] = node
        else:
            found[f"{path}#"] = len(node)
    return found


def with_values(node: Any, values: Values, path: str = "config") -> Any:
    """The tree with other values at some dotted paths; what has none of them is the same object."""
    if path in values:
        return values[path]
    if not any(changed.startswith(path) for changed in values):
        return node
    parts = {step: with_values(child, values, path + step) for step, child in tree.children(node)}
    if dataclasses.is_dataclass(node) and not isinstance(node, type):
        return dataclasses.replace(node, **{step[1:]: child for step, child in parts.items()})
    if isinstance(node, dict):
        return {step[1:]: child for step, child in parts.items()}
    return type(node)(parts.values()) if parts else node


def differing(experiments: Sequence[Experiment]) -> dict[str, list[Any]]:
    """The values of all experiments, at each dotted path where they differ; `...` where one has no such path."""
    found = [leaves(experiment) for experiment in experiments]
    paths = dict.fromkeys(path for one in found for path in one)
    values = {path: [one.get(path, ...) for one in found] for path in paths}
    return {path: row for path, row in values.items() if any(value != row[0] for value in row[1:])}


def traced_values(experiments: Sequence[Experiment]) -> Values:
    """What the program takes as arguments, a row each: the numbers that differ, and the learning rates."""
    steps = jnp.arange(experiments[0].num_steps)
    rates = [jax.vmap(e.optimizer.lr(e.num_steps))(steps) for e in experiments]
    values: Values = {RATES: np.stack([np.broadcast_to(np.asarray(x, np.float32), steps.shape) for x in rates])}
    for path, row in differing(experiments).items():
        if path.startswith(TRACED) and not path.startswith(OWN):
            values[path] = _row(row)
    return values


def _row(numbers: list[Any]) -> jax.Array:
    # Stacked of Python's numbers they stay weak: in bfloat16 activations they promote nothing.
    kind = int if all(isinstance(number, int) for number in numbers) else float
    return jnp.stack([jnp.asarray(kind(number)) for number in numbers])


def member(experiment: Experiment, values: Values) -> Experiment:
    """The experiment with the values of one member, arrays or arguments of a trace."""
    return with_values(experiment, values | {RATES: Table(rates=values[RATES])})


@dataclasses.dataclass(frozen=True)
class Apart:
    """Where experiments differ so that they can't be one program, by dotted path.

    Attributes:
      fixed: the program depends on the value.
      switches: it depends on whether the value is 0, which switches something off; all others are arguments.
    """

    fixed: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


def apart(experiments: Sequence[Experiment]) -> Apart:
    """What keeps these experiments apart. Where their numbers alone differ, it traces the step."""
    different, first = differing(experiments), experiments[0]
    own = {path for path in different if path.startswith(OWN)}
    specs = [batch_spec(e.data, 1) for e in experiments]
    if any(spec != specs[0] for spec in specs):
        own = {path for path in own if not path.startswith(DATA)}
    free = [path for path, row in different.items() if path not in own and path.startswith(TRACED) and _numbers(row)]
    fixed = [path for path in different if path not in own and path not in free]
    if fixed or not free:
        return Apart(tuple(fixed))
    whole = _program(first, {path: _row(different[path])[0] for path in free})
    if whole is None:
        _program(first)  # a config that is wrong by itself says so
        fixed = [path for path in free if _program(first, {path: _row(different[path])[0]}) is None]
        whole = _program(first, {path: _row(different[path])[0] for path in free if path not in fixed})
    zeros = {path: different[path].index(0) for path in free if path not in fixed and not all(different[path])}
    alone = {i: _program(experiments[i]) for i in {*zeros.values()}}
    return Apart(tuple(fixed), tuple(path for path, i in zeros.items() if path != SEED and alone[i] != whole))


def _numbers(row: list[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in row)


def _program(experiment: Experiment, values: Values | None = None) -> Any:
    """Shapes and dtypes of all that a step gives, some values being its arguments; None where they can't be.

    Without values it raises whatever is wrong with the experiment.
    """
    with sharding.use(experiment.mesh) as built:
        layout = lay_out(experiment, built)

        def step(values: Values | None, state: Any, batch: Any) -> Any:
            if values is None:
                return make_step(experiment, layout)(state, batch)
            own = member(experiment, values)
            return make_step(own, lay_out(own, built))(state, batch)

        if values is not None:
            values = values | {RATES: jnp.zeros(experiment.num_steps)}
        batch = batch_spec(experiment.data, experiment.batch_size)
        try:
            shapes = jax.eval_shape(step, values, layout.abstract, batch)
        except (TypeError, ValueError, IndexError, AttributeError):  # a trace where Python wants a number
            if values is None:
                raise
            return None
    return jax.tree.map(lambda x: (x.shape, x.dtype), shapes)


def populations(experiments: Sequence[Experiment]) -> list[list[int]]:
    """The experiments' numbers, those together that can be one program, in order."""
    found = []
    for group in _grouped(experiments, range(len(experiments)), Apart()):
        found += _grouped(experiments, group, apart([experiments[i] for i in group]))
    return sorted(found)


def _grouped(experiments: Sequence[Experiment], numbers: Iterable[int], apart: Apart) -> list[list[int]]:
    groups: dict[Any, list[int]] = collections.defaultdict(list)
    for i in numbers:
        groups[_kind(experiments[i], apart)].append(i)
    return list(groups.values())


def _kind(experiment: Experiment, apart: Apart) -> Any:
    """All of an experiment that belongs to its program, but for numbers that may be arguments."""
    found: list[Any] = [str(batch_spec(experiment.data, 1))]
    for path, value in leaves(experiment).items():
        if path.startswith(OWN):
            continue
        if path in apart.fixed or not (path.startswith(TRACED) and _numbers([value])):
            found.append((path, value))
        else:
            found.append((path, bool(value)) if path in apart.switches else (path, ...))
    return tuple(found)


def check_together(experiments: Sequence[Experiment]) -> None:
    """Whether these can train together.

    Raises:
      UserError: they differ in what the program depends on; names the fields.
    """
    mesh = experiments[0].mesh
    if mesh.moments != "device" or mesh.pipeline != 1:
        raise UserError("config.mesh", "moments on the devices and no pipeline, where points train together")
    found = apart(experiments)
    if bad := (*found.fixed, *found.switches):
        values = ", ".join(dict.fromkeys(_shown(value) for value in differing(experiments)[bad[0]]))
        hint = "the program depends on it: train such points one by one"
        raise UserError(" and ".join(bad), "one value where points train together", values, hint=hint)


def _shown(value: Any) -> str:
    return "(none)" if value is ... else value.__name__ if isinstance(value, type) else repr(value)
