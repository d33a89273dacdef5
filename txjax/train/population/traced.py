"""Which experiments can share one program: they differ only in numbers that the program takes as arguments.

A field is declared as such a number by `config_field(0.9, traced=True)`. The program depends on all other values.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from txjax import tree
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.optim import Schedule
from txjax.train.state.state import batch_spec

# What the step alone reads. The loop, which all runs of a program share, reads the rest.
STEP = ("config.seed", "config.model.", "config.objective.", "config.optimizer.", "config.ema.", "config.spikes.")
RATES = "config.optimizer.schedule"
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
    values: Values = {}
    for path, node in tree.walk(experiment):
        if dataclasses.is_dataclass(node):
            values[f"{path}.class"] = type(node)
        elif not isinstance(node, dict | tuple | list):
            values[path] = node
        else:
            values[f"{path}#"] = len(node)
    return values


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


def arguments(experiment: Experiment) -> dict[str, Mapping[str, Any]]:
    """The metadata of every field whose number the step's program can take as an argument, by dotted path."""
    metadata: dict[str, Mapping[str, Any]] = {}
    for parent, node in tree.walk(experiment):
        for field in tree.config_fields(node) if dataclasses.is_dataclass(node) else ():
            path = f"{parent}.{field.name}"
            value = getattr(node, field.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and field.metadata.get("traced") and path.startswith(STEP) and not path.startswith(OWN):
                metadata[path] = field.metadata
    return metadata


def program(experiment: Experiment) -> Values:
    """All that an experiment's program depends on, by dotted path."""
    taken = arguments(experiment)
    values: Values = {DATA: str(batch_spec(experiment.data, 1))}
    for path, value in leaves(experiment).items():
        if path in taken:
            values |= {} if taken[path]["off"] is None else {path: value == taken[path]["off"]}
        elif not path.startswith(OWN):
            values[path] = value
    return values


def populations(experiments: Sequence[Experiment]) -> list[list[int]]:
    """The experiments' numbers, those together that can be one program, in order."""
    groups: dict[Any, list[int]] = collections.defaultdict(list)
    for i, experiment in enumerate(experiments):
        # It begins or ends at a step of its own, or its batches are of tasks of its own or change.
        moves = experiment.stop is not None or experiment.branch_from is not None or experiment.changes
        alone = moves or len(experiment.data.batch_specs()) > 1
        groups[frozenset(program(experiment).items()), i if alone else None].append(i)
    return list(groups.values())


def check_together(experiments: Sequence[Experiment]) -> None:
    """Whether these can train together.

    Raises:
      UserError: they differ in what the program depends on; names the fields.
    """
    mesh = experiments[0].mesh
    if mesh.moments != "device" or mesh.pipeline != 1:
        raise UserError("config.mesh", "moments on the devices and no pipeline, where points train together")
    if experiments[0].stop is not None:
        hint = "each run would end at a step of its own: train such points one by one"
        raise UserError(
            "config.stop", "None where points train together", type(experiments[0].stop).__name__, hint=hint
        )
    if len(experiments[0].data.batch_specs()) > 1:
        hint = "each run would draw tasks of its own: train such points one by one"
        got = type(experiments[0].data).__name__
        raise UserError("config.data", "batches that are alike where points train together", got, hint=hint)
    if experiments[0].changes:
        expected = "() where points train together"
        raise UserError("config.changes", expected, len(experiments[0].changes), hint="train such points one by one")
    if experiments[0].branch_from is not None:
        expected = "None where points train together"
        raise UserError("config.branch_from", expected, experiments[0].branch_from, hint="train such points one by one")
    different = differing([program(experiment) for experiment in experiments])
    rows = differing([leaves(experiment) for experiment in experiments])
    if bad := [path for path in rows if path in different or (DATA in different and path.startswith(DATA))]:
        values = ", ".join(dict.fromkeys(_shown(value) for value in rows[bad[0]]))
        hint = "the program depends on it: train such points one by one"
        raise UserError(" and ".join(bad), "one value where points train together", values, hint=hint)


def _shown(value: Any) -> str:
    return "(none)" if value is ... else value.__name__ if isinstance(value, type) else repr(value)


def differing(members: Sequence[Values]) -> dict[str, list[Any]]:
    """The rows of values that are not all equal, by path; `...` where one has no such path."""
    paths = dict.fromkeys(path for values in members for path in values)
    rows = {path: [values.get(path, ...) for values in members] for path in paths}
    return {path: row for path, row in rows.items() if any(value != row[0] for value in row[1:])}


def traced_values(experiments: Sequence[Experiment]) -> Values:
    """What the program takes as arguments, a row each: the numbers that differ, and the learning rates."""
    steps = jnp.arange(experiments[0].num_steps)
    rates = [jax.vmap(e.optimizer.lr(e.num_steps))(steps) for e in experiments]
    values: Values = {RATES: np.stack([np.broadcast_to(np.asarray(x, np.float32), steps.shape) for x in rates])}
    taken = arguments(experiments[0])
    rows = differing([leaves(experiment) for experiment in experiments])
    return values | {path: _row(row) for path, row in rows.items() if path in taken}


def _row(numbers: list[Any]) -> jax.Array:
    # Stacked of Python's numbers they stay weak: in bfloat16 activations they promote nothing.
    kind = int if all(isinstance(number, int) for number in numbers) else float
    return jnp.stack([jnp.asarray(kind(number)) for number in numbers])


def member(experiment: Experiment, values: Values) -> Experiment:
    """The experiment with the values of one member, arrays or arguments of a trace."""
    return with_values(experiment, values | {RATES: Table(rates=values[RATES])})
