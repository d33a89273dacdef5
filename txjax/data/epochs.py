"""The length of a run in epochs, as users count: the number of steps follows from the data and the batch size."""

import json
import math
from collections.abc import Iterable
from typing import Any

from txjax import tree
from txjax.data.dataset import Dataset
from txjax.types import UserError

_lengths: dict[str, int] = {}  # by the config of the data set: a sweep has many points of the same data
FIELD, STEPS = "num_epochs", "num_steps"


def set_steps(experiment: Any, assigned: Iterable[str] = ()) -> None:
    """Sets `num_steps` of an experiment in place, if its `num_epochs` is not None. Opens the training data then.

    Args:
      assigned: dotted paths of the fields that flags, or the point of a sweep, have set.

    Raises:
      UserError: `num_steps` is assigned, too, or the data set has no epochs.
    """
    epochs = getattr(experiment, FIELD, None)
    if epochs is None:
        return
    if STEPS in assigned:
        hint = f"add --config.{FIELD}=None to give the steps"
        raise UserError(f"config.{STEPS}", f"no value, since config.{FIELD} = {epochs:g} sets it", hint=hint)
    if epochs > 0 and experiment.batch_size > 0:  # else `check_fields` refuses them
        experiment.num_steps = steps_of(epochs, experiment.data, experiment.batch_size)


def steps_of(epochs: float, data: Dataset, batch_size: int) -> int:
    """The steps in which every example of a data set is used at least `epochs` times.

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
        raise error.inside("config.data", "data") from None
    except TypeError:  # its source has no length
        expected = "None, since the data have no length"
        raise UserError(f"config.{FIELD}", expected, type(data).__name__, hint="give num_steps") from None
    return max(1, math.ceil(epochs * _lengths[text] / batch_size))
