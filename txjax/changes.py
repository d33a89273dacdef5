"""Fields of a run that have other values from a step on, and the phases that a run has by them."""

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from txjax.errors import UserError
from txjax.overrides import set_field
from txjax.types import config_field

FIELDS = ("batch_size", "microbatches", "data")


@dataclasses.dataclass
class Change:
    """Other values of some fields of a run, from a step on: `Change(1000, {"batch_size": 64, "data.length": 512})`.

    The data set continues where it is, also the parts of a `Mixture` whose weights change. One whose examples are
    others, such as windows of another length, begins its first epoch.

    Attributes:
      step: updates that are done before the first one with these values.
      fields: the values by the path of their field: `batch_size`, `microbatches`, `data` or a field below it.
    """

    step: int = config_field(at_least=1)
    fields: dict[str, Any] = config_field(factory=dict)


@dataclasses.dataclass(frozen=True)
class Phase:
    """Updates of a run between two changes.

    Attributes:
      begin: updates before the first one of the phase.
      end: updates before the first one after it.
      experiment: of the run, with the values that its fields have in this phase. It has no changes.
      changed: the values that are set where it begins, by the path of their field.
    """

    begin: int
    end: int
    experiment: Any
    changed: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def steps(self) -> int:
        """The updates of the phase."""
        return self.end - self.begin

    @property
    def title(self) -> str:
        """Where the phase begins, and by what: `from step 1,000: batch_size=64`."""
        values = ", ".join(f"{path}={value}" for path, value in self.changed.items())
        return f"from step {self.begin:,}: {values}" if values else "from the beginning"


def phases(experiment: Any) -> tuple[Phase, ...]:
    """The phases of an experiment in their order; one, from 0 to `num_steps`, if nothing changes.

    Raises:
      UserError: steps that don't rise or are outside of the run, fields that may not change or don't exist.
    """
    begins = [0, *(change.step for change in experiment.changes)]
    ends = [*begins[1:], experiment.num_steps]
    _check_steps(begins, experiment.num_steps)
    states = [dataclasses.replace(experiment, changes=())]
    for i, change in enumerate(experiment.changes):
        states.append(_changed(states[-1], change, f"config.changes[{i}].fields"))
    changed = [{}, *(change.fields for change in experiment.changes)]
    return tuple(Phase(*parts) for parts in zip(begins, ends, states, changed, strict=True))


def examples_before(run: Sequence[Phase], step: int) -> int:
    """The examples that the updates before a step have used."""
    return sum(phase.experiment.batch_size * max(0, min(step, phase.end) - phase.begin) for phase in run)


def _check_steps(begins: list[int], num_steps: int) -> None:
    for i, (before, step) in enumerate(zip(begins, begins[1:], strict=False)):
        field = f"config.changes[{i}].step"
        if step <= before:
            at_least = f"more than config.changes[{i - 1}].step = {before}" if i else "at least 1"
            raise UserError(field, at_least, step)
        if step >= num_steps:
            raise UserError(field, f"less than config.num_steps = {num_steps}", step)


def _changed(experiment: Any, change: Change, where: str) -> Any:
    """The experiment with the values of a change."""
    experiment = dataclasses.replace(experiment, data=copy.deepcopy(experiment.data))
    if not change.fields:
        raise UserError(where, "at least one field", change.fields)
    for path, value in change.fields.items():
        if path.partition(".")[0] not in FIELDS:
            hint = "the learning rate changes by its schedule" if path.startswith("optimizer") else ""
            raise UserError(f"{where}.{path}", f"{', '.join(FIELDS)} or a field below data", hint=hint)
        try:
            set_field(experiment, path, value)
        except UserError as error:
            raise error.with_path(where, "config") from None
    return experiment
