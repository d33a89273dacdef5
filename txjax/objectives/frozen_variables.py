"""The variables of a run whose objective has a frozen model: the run's own model's, and the others below a prefix."""

import dataclasses
from typing import Any

from txjax.types import ObjectiveOutput, PyTree


def split(variables: PyTree, prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The variables of the run's model, and those below the prefix, which stays; both by collection."""
    model_variables = {kind: {k: v for k, v in tree.items() if k != prefix} for kind, tree in variables.items()}
    return model_variables, {kind: {prefix: tree[prefix]} for kind, tree in variables.items() if prefix in tree}


def join(model_variables: PyTree, others: PyTree) -> dict[str, Any]:
    """The inverse of `split`."""
    return {kind: model_variables.get(kind, {}) | others.get(kind, {}) for kind in {**model_variables, **others}}


def with_state(output: ObjectiveOutput, others: PyTree) -> ObjectiveOutput:
    """The output of the run's model, and the frozen model's state with its own."""
    state = {kind: tree for kind, tree in others.items() if kind != "params"}
    return dataclasses.replace(output, model_state=join(output.model_state, state))
