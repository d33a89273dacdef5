"""What a model's run on some examples shows: attention maps, rollout, distances, class activation."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from txjax import backend
from txjax.errors import UserError, join_names
from txjax.report.inspection.attention_sequences import Attended, attentions_of_call
from txjax.report.inspection.attention_summary import Kept, summary
from txjax.report.inspection.class_activation import ClassActivation, class_activation, method_of
from txjax.report.inspection.examples import Example
from txjax.types import PyTree

MOST = 12  # layers and heads that are shown, if none are chosen
SHOWN = 8  # examples whose maps are shown; distances are means over all

Chosen = tuple[tuple[int, ...], tuple[int, ...]]  # layers and heads


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What is kept of one example.

    Attributes:
      attentions: the attentions of the call, by path.
      kept: of each of those that have a chosen layer and head.
      activation: of the predicted class; None without one.
    """

    example: Example
    attentions: Mapping[str, Attended]
    kept: Mapping[str, Kept]
    activation: ClassActivation | None


@dataclasses.dataclass(frozen=True)
class Findings:
    """What is kept of all examples.

    Attributes:
      inspections: by example.
      chosen: the layers and heads that are shown, by path of the attention.
      notes: what the model has no picture of, and why.
      method: how class activation is found; None without it.
      query: the place of the query whose maps over images they are; None: see `attention_summary.summary`.
    """

    inspections: list[Inspection]
    chosen: Mapping[str, Chosen]
    notes: list[str]
    method: str | None
    query: tuple[float, float] | None = None

    def distances(self) -> dict[str, Float[np.ndarray, "layers H"]]:
        """The mean attention distance over all examples, by path."""
        by_path: dict[str, list[np.ndarray]] = {}
        for inspection in self.inspections:
            for path, kept in inspection.kept.items():
                if kept.distance is not None:
                    by_path.setdefault(path, []).append(np.asarray(kept.distance))
        return {path: np.mean(rows, 0) for path, rows in by_path.items()}


def findings(
    model: Any,
    variables: PyTree,
    examples: Iterable[Example],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    query: tuple[float, float] | None = None,
) -> Findings:
    """Runs the model on each example as an evaluation does; only the maps of chosen layers are copied.

    Args:
      layers, heads: their numbers, negative ones from the end, in each stack that has them. If None, all, or twelve
        that are evenly spread.
      query: see `attention_summary.summary`.

    Raises:
      UserError: no attention has such a layer or head.
    """
    programs: dict[Any, Any] = {}
    inspections: list[Inspection] = []
    notes: list[str] = []
    chosen: dict[str, Chosen] = {}
    method = None
    for example in examples:
        key = str({name: x.shape for name, x in example.inputs.items()})
        if key not in programs:
            known = attentions_of_call(model, variables, example.inputs)
            chosen = chosen_of(known, layers, heads)
            method, notes = _activation(model, variables, example)
            notes += _without_pictures(model, known)
            programs[key] = known, _program(model, chosen, known, query, method is not None)
        known, program = programs[key]
        kept, activation = jax.device_get(program(variables, example.inputs))
        inspections.append(Inspection(example, known, kept, activation))
    return Findings(inspections, chosen, notes, method, query)


def _program(
    model: Any,
    chosen: Mapping[str, Chosen],
    known: Mapping[str, Attended],
    query: tuple[float, float] | None,
    activates: bool,
) -> Any:
    def program(variables: PyTree, inputs: dict[str, Any]) -> tuple[dict[str, Kept], ClassActivation | None]:
        kept = summary(model, variables, inputs, chosen, known, query) if known else {}
        return kept, class_activation(model, variables, inputs) if activates else None

    return backend.jit(program)


def _activation(model: Any, variables: PyTree, example: Example) -> tuple[str | None, list[str]]:
    """How class activation is found, or why there is none of an image."""
    if example.image is None:
        return None, []
    try:
        jax.eval_shape(lambda v, x: class_activation(model, v, x), variables, example.inputs)
        return method_of(model), []
    except UserError as error:
        return None, [f"no class activation: {error}"]


def _without_pictures(model: Any, known: Mapping[str, Attended]) -> list[str]:
    """Which attentions have no picture."""
    if not known:
        return [f"no attention maps: {type(model).__name__} has no attention whose weights are known"]
    return [
        f"no picture of {path}: it is neither between texts nor to audio, nor to or from the patches of an image"
        for path, attention in known.items()
        if not (attention.between_labelled or attention.image_over_labelled or attention.over_time)
        and attention.keys.grid is None
    ]


def chosen_of(
    known: Mapping[str, Attended], layers: Sequence[int] | None, heads: Sequence[int] | None
) -> dict[str, Chosen]:
    """The layers and heads that are shown of each attention.

    Raises:
      UserError: no attention has such a layer or head.
    """
    by_path = {}
    for flag, numbers in (("--layer", layers), ("--head", heads)):
        sizes = {path: attention.layers if flag == "--layer" else attention.heads for path, attention in known.items()}
        for number in numbers or ():
            if sizes and not any(-size <= number < size for size in sizes.values()):
                ranges = dict.fromkeys(f"{-size} to {size - 1}" for size in sizes.values())
                hint = f"of {join_names(list(sizes))}"
                raise UserError(flag, "a number from " + " or ".join(ranges), number, hint=hint)
    for path, attention in known.items():
        chosen_numbers = _numbers_within(attention.layers, layers), _numbers_within(attention.heads, heads)
        if all(chosen_numbers):
            by_path[path] = chosen_numbers
    if known and not by_path:
        raise UserError("--head", "a head of an attention that has the chosen --layer", list(heads or ()))
    return by_path


def _numbers_within(size: int, numbers: Sequence[int] | None) -> tuple[int, ...]:
    """The numbers that a stack of this size has, from 0; without any given, at most `MOST` that are evenly spread."""
    if numbers is None:
        return tuple(range(size)) if size <= MOST else tuple(i * (size - 1) // (MOST - 1) for i in range(MOST))
    return tuple(dict.fromkeys(number % size for number in numbers if -size <= number < size))
