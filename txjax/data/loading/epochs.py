"""The length of a run in epochs, as users count: the number of steps follows from the data and the batch size."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from txjax import tree
from txjax.data.dataset import Dataset
from txjax.errors import UserError

_lengths: dict[str, int] = {}  # by the config of the data set: a sweep has many points of the same data
E = TypeVar("E")
FIELD = "num_epochs"
STEPS = "num_steps"


def in_steps(experiment: E, assigned: Iterable[str] = ()) -> E:
    """The experiment with the `num_steps` of its `num_epochs`, if these are not None. Opens the training data then.

    All values must have their fields' types, on which this relies, and all that reads the experiment after it.

    Args:
      assigned: dotted paths of the fields that flags, or the point of a sweep, have set.

    Raises:
      UserError: a value has another type; `num_steps` is assigned, too, or the data set has no epochs.
    """
    tree.check_types(experiment)
    config: Any = experiment
    epochs = getattr(config, FIELD, None)
    if epochs is None:
        return experiment
    if STEPS in assigned:
        hint = f"add --config.{FIELD}=None to give the steps"
        raise UserError(f"config.{STEPS}", f"no value, since config.{FIELD} = {epochs:g} sets it", hint=hint)
    sizes = batch_sizes(config)
    if epochs <= 0 or not all(isinstance(size, int) and size >= 1 for size in sizes.values()):
        return experiment  # `check` refuses them
    return dataclasses.replace(config, **{STEPS: steps_of(epochs, config.data, sizes)})


def batch_sizes(config: Any) -> dict[int, int]:
    """The examples of a batch, by the step where they change.

    Raises:
      UserError: the data set changes, too.
    """
    sizes = {0: config.batch_size}
    for i, change in enumerate(getattr(config, "changes", ())):
        if others := [path for path in change.fields if path.partition(".")[0] == "data"]:
            hint = f"config.changes[{i}] sets {others[0]}, and an epoch is of one data set: give num_steps"
            raise UserError(f"config.{FIELD}", "None", config.num_epochs, hint=hint)
        if "batch_size" in change.fields:
            sizes[change.step] = change.fields["batch_size"]
    return sizes


def steps_of(epochs: float, data: Dataset, sizes: Mapping[int, int]) -> int:
    """The steps in which every example of a data set is used at least `epochs` times.

    Args:
      sizes: the examples of a batch, by the step where they change, the first at 0.

    Raises:
      UserError: the data set has no epochs, or can't be opened.
    """
    try:
        for where, node in tree.walk(data, "data"):
            if isinstance(node, Dataset) and (reason := node.without_epochs()):
                hint = f"config.{where} {reason}: give num_steps"
                raise UserError(f"config.{FIELD}", "None", epochs, hint=hint)
        text = json.dumps(tree.to_json(data))
        if text not in _lengths:
            _lengths[text] = len(data.open())
    except UserError as error:
        raise error.with_path("config.data", "data") from None
    except TypeError:  # its source has no length
        expected = "None, since the data have no length"
        raise UserError(f"config.{FIELD}", expected, type(data).__name__, hint="give num_steps") from None
    left = epochs * _lengths[text]
    begins = sorted(sizes)
    for begin, end in itertools.pairwise(begins):
        if left <= (used := (end - begin) * sizes[begin]):
            return max(1, begin + math.ceil(left / sizes[begin]))
        left -= used
    return max(1, begins[-1] + math.ceil(left / sizes[begins[-1]]))
