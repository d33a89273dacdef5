"""The parts that an objective needs frozen, such as a teacher: they must come from another run."""

import logging

from flax.core import meta

from txjax.experiment import Experiment
from txjax.objectives import Objective
from txjax.train.state import abstract_variables
from txjax.transfer.match import Row
from txjax.transfer.origin import FIELD, under
from txjax.tree import walk
from txjax.types import UserError, flat_paths

log = logging.getLogger("txjax")


def check_frozen(experiment: Experiment) -> None:
    """Checks that the optimizer trains no part that the objective needs frozen; the model is traced only if one does.

    Raises:
      UserError: names the first parameter that would be trained.
    """
    if not (prefixes := _prefixes(experiment)):
        return
    for path in flat_paths(meta.unbox(abstract_variables(experiment))["params"]):
        for prefix in prefixes:
            if under(path, prefix) and experiment.optimizer.tuning(experiment.model).trained(path):
                hint = f'groups=train_all_but("{prefix}/.*") is a way'
                expected = f"groups that freeze {prefix}/, which the objective doesn't train"
                raise UserError("config.optimizer.groups", expected, f"{path} trained", hint=hint)


def check_given(experiment: Experiment, rows: list[Row]) -> None:
    """Checks that the origins of `init_from` give all of these parts; without an origin, logs that they are random.

    Raises:
      UserError: names the first parameter that no origin gives.
    """
    for prefix in _prefixes(experiment):
        if not rows:
            log.warning("%s names no run: %s/ is random, and nothing trains it", FIELD, prefix)
        for row in rows:
            if row.action == "new" and under(row.path, prefix):
                expected = f"an origin that gives all of {prefix}/, such as From(run=WORKDIR, here={prefix!r})"
                raise UserError(FIELD, expected, f"none for {row.path}")


def _prefixes(experiment: Experiment) -> list[str]:
    nodes = (node for _, node in walk(experiment.objective))
    return [prefix for node in nodes if isinstance(node, Objective) for prefix in node.frozen]
