"""Checks of what changes during a run: each phase is an experiment, whose batches train the same parameters."""

import contextlib
from collections.abc import Callable, Iterator

from txjax.changes import Phase, phases
from txjax.checks import Checks
from txjax.data import Mixture
from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.train.state.state import ModelTrace, trace_model


def check_changes(experiment: Experiment, check_phase: Callable[[Checks, Experiment], None]) -> None:
    """Checks the phases of an experiment after the first, which is checked as the experiment.

    Args:
      experiment: resolved.
      check_phase: the checks of a batch and of the data.

    Raises:
      UserError: for every mistake, by the change that has it.
    """
    checks = Checks()
    run = phases(experiment)
    for i, (before, phase) in enumerate(zip(run, run[1:], strict=False)):
        with checks.collect(), _of_change(i):
            inner = Checks()
            check_phase(inner, phase.experiment)
            inner.run(_check_weights, before, phase)
            inner.finish()
        checks.run(_check_window, i, before, phase)
    checks.finish()


def check_parameters(experiment: Experiment, trace: ModelTrace) -> None:
    """Checks that the batches of each phase train the same arrays.

    Args:
      trace: of the model on the batches of the first phase.

    Raises:
      UserError: an array has another shape.
    """
    run = phases(experiment)
    for i, phase in enumerate(run[1:]):
        if phase.experiment.data.spec() == run[0].experiment.data.spec():
            continue
        arrays = trace_model(phase.experiment).parameters
        for path, array in trace.parameters.items():
            if path not in arrays or arrays[path].shape != array.shape:
                expected = f"examples that leave {path} {list(array.shape)}"
                got = list(arrays[path].shape) if path in arrays else None
                raise UserError(f"config.changes[{i}].fields", expected, got)


@contextlib.contextmanager
def _of_change(number: int) -> Iterator[None]:
    """Errors inside name the field of a change."""
    try:
        yield
    except UserError as error:
        raise error.with_path(f"config.changes[{number}].fields", "config") from None


def _check_weights(before: Phase, phase: Phase) -> None:
    """Checks that parts continue where weights begin or end."""
    old = before.experiment.data
    new = phase.experiment.data
    if isinstance(old, Mixture) and isinstance(new, Mixture) and bool(old.weights) != bool(new.weights):
        expected = "weights in both phases or in none, so that parts continue where they are"
        hint = "Temperature(1) has the shares of the sizes"
        raise UserError("config.data.weights", expected, new.weights, hint=hint)


def _check_window(number: int, before: Phase, phase: Phase) -> None:
    """Checks that no batches are left of those that are sorted by length together."""
    together = getattr(before.experiment.data, "sort_batches", 1)
    if before.steps % together:
        field = f"config.changes[{number}].step"
        expected = f"a multiple of data.sort_batches = {together}, after step {before.begin}"
        raise UserError(field, expected, phase.begin)
