"""What must be frozen: the parts that an objective has from another run, such as a teacher, and quantized kernels."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.models.model import Model, models_inside
from txjax.models.transformer import Transformer
from txjax.nn import stored_parts
from txjax.nn.stack.chosen_layers import ends_early
from txjax.objectives import Objective
from txjax.train.state.state import ModelTrace
from txjax.transfer.match import Row
from txjax.transfer.origin import FIELD, is_under
from txjax.tree import walk

log = logging.getLogger("txjax")


def check_frozen(experiment: Experiment, trace: ModelTrace) -> None:
    """Checks that the optimizer trains no part that the objective needs frozen, no quantized kernel, and no stack of
    which some layers are not run: a weight decay would change these.

    Args:
      trace: of the model.

    Raises:
      UserError: names the first parameter that would be trained.
    """
    prefixes = _prefixes(experiment)
    params = trace.parameters
    trained = experiment.optimizer.tuning(experiment.model).trained
    for path, kernel in stored_parts(params).items():
        if trained(path):
            hint = "groups=train_adapter() is a way: an adapter is trained, and not what config.model.storage quantizes"
            raise UserError("config.optimizer.groups", f"groups that freeze {kernel}", f"{path} trained", hint=hint)
    reasons = dict.fromkeys(prefixes, "which the objective doesn't train")
    reasons |= dict.fromkeys(stacks_that_end_early(experiment.model), "whose last layers are not run")
    for path in params:
        for prefix, reason in reasons.items():
            if is_under(path, prefix) and trained(path):
                hint = f'groups=train_all_but("{prefix}/.*") is a way'
                expected = f"groups that freeze {prefix}/, {reason}"
                raise UserError("config.optimizer.groups", expected, f"{path} trained", hint=hint)


def stacks_that_end_early(model: Any) -> Iterator[str]:
    """The paths of the stacks of a model, and of models inside it, of which some layers are not run."""
    if not isinstance(model, Model):
        return
    if isinstance(model, Transformer) and ends_early(model.stack.clone(depth=model.depth)):
        yield model.stack_name
    for name, inner in models_inside(model):
        yield from (f"{name}/{path}" for path in stacks_that_end_early(inner))


def check_given(experiment: Experiment, rows: list[Row]) -> None:
    """Checks that the origins of `init_from` give all of these parts; without an origin, logs that they are random.

    Raises:
      UserError: names the first parameter that no origin gives.
    """
    for prefix in _prefixes(experiment):
        if not rows:
            log.warning("%s names no run: %s/ is random, and nothing trains it", FIELD, prefix)
        for row in rows:
            if row.action == "new" and is_under(row.path, prefix):
                expected = f"an origin that gives all of {prefix}/, such as From(run=WORKDIR, here={prefix!r})"
                raise UserError(FIELD, expected, f"none for {row.path}")


def check_stored(here: Iterable[str], source: str, there: Iterable[str]) -> None:
    """Checks that every kernel is stored alike in this run and in one that it starts from.

    Args:
      here, there: the paths of the parameters of this run and of the other.
      source: the other's name.

    Raises:
      UserError: names the first kernel that is not.
    """
    ours = _formats(here)
    theirs = _formats(there)
    for path, form in sorted(ours.items()):
        if theirs.get(path, form) != form:
            hint = "`txjax quantize` makes a run with quantized kernels; config.model.storage is how this one has them"
            raise UserError(FIELD, f"a run with {path} in {form}", f"{theirs[path]} in {source}", hint=hint)


def _formats(paths: Iterable[str]) -> dict[str, str]:
    """The format of each parameter, by path."""
    paths = set(paths)
    kernels = stored_parts(paths)
    plain = {path: "float32" for path in paths - kernels.keys()}
    return plain | {kernel: path.rpartition("/")[2] for path, kernel in kernels.items() if not path.endswith("/scale")}


def _prefixes(experiment: Experiment) -> list[str]:
    nodes = (node for _, node in walk(experiment.objective))
    return [prefix for node in nodes if isinstance(node, Objective) for prefix in node.frozen]
