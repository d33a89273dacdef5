"""One module object at two places of a model: both would have the same parameters, and nothing would say so."""

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any

from txjax.errors import UserError
from txjax.experiment import Experiment
from txjax.train.state.state import ModelTrace, trace_model
from txjax.tree import config_fields, walk


def check_shared_modules(experiment: Experiment, trace: ModelTrace) -> None:
    """Checks that no two parts of the model share parameters because the config has one object at both places.

    Templates, which the model copies (`mixer`, `mlp`, `norm`, ...), may be one object. The model is traced again
    only if an object is found twice.

    Args:
      trace: of the model.

    Raises:
      UserError: names both places.
    """
    for first, second, module in _repeated(experiment.model):
        apart = dataclasses.replace(experiment, model=_separated(experiment.model, module))
        if trace_model(apart).parameters.keys() != trace.parameters.keys():
            hint = "they would share its parameters: construct it twice, or give one of them a .clone()"
            raise UserError(second, "a module of its own", f"the same object as {first}", hint=hint)


def _repeated(model: Any) -> Iterator[tuple[str, str, Any]]:
    """The modules that are found at a second place: both paths, and the module."""
    first: dict[int, str] = {}
    for path, node in walk(model, "config.model"):
        if hasattr(node, "clone") and first.setdefault(id(node), path) != path:
            yield first[id(node)], path, node


def _separated(node: Any, module: Any) -> Any:
    """The tree with a copy of `module` at each of its places."""
    if node is module:
        return copy.deepcopy(node)
    if isinstance(node, dict):
        return {key: _separated(value, module) for key, value in node.items()}
    if isinstance(node, tuple | list):
        return type(node)(_separated(value, module) for value in node)
    if not dataclasses.is_dataclass(node):
        return node
    fields = {f.name: _separated(getattr(node, f.name), module) for f in config_fields(node)}
    return node.clone(**fields) if hasattr(node, "clone") else dataclasses.replace(node, **fields)  # type: ignore
