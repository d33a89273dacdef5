"""Range checks of the ids in a batch: an id outside a model's table would give NaN, or silently another row."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from txjax.data.keys import part_of
from txjax.errors import UserError
from txjax.tree import walk

INPUTS = ("tokens", "source_tokens", "choice_tokens", "languages")
_VOCAB = "vocab"
_SOURCE = "source_vocab"
_CLASSES = "head.classes"


def counted_by(model: Any, needs: Collection[str]) -> dict[str, str]:
    """The field of the model, by key of a batch, that is the number of ids; needed `targets` may be classes."""
    classes = _VOCAB if find_size(model, _CLASSES) is None else _CLASSES
    targets = classes if "targets" in needs else _VOCAB
    labels = {"label": _CLASSES, "other_label": _CLASSES} if "label" in needs else {}
    source = _VOCAB if find_size(model, _SOURCE) is None else _SOURCE
    inputs = {"tokens": _VOCAB, "source_tokens": source, "choice_tokens": _VOCAB, "languages": "languages"}
    symbols = {"transcript": classes} if "transcript" in needs else {}
    return {**inputs, "targets": targets, **symbols, **labels}


def find_size(model: Any, field: str) -> tuple[str, int] | None:
    """The path and the number of a field of the model, such as `head.classes`, or else of the parts inside it.

    Of several parts that have it, the largest number is the limit: larger ids are wrong for all of them. None if no
    part has it.
    """
    if (size := size_of(model, field)) is not None:
        return field, size
    inside = [
        (f"{path[1:]}.{field}", size) for path, node in walk(model, "") if (size := size_of(node, field)) is not None
    ]
    return max(inside, key=lambda part: part[1], default=None)


def size_of(model: Any, field: str) -> int | None:
    """The number in a field of the model itself, such as `head.classes`; None if it has no such field."""
    for name in field.split("."):
        model = getattr(model, name, None)
    return model if isinstance(model, int) else None


@dataclasses.dataclass(frozen=True)
class Limits:
    """The upper bounds of ids, by key of the batch.

    Attributes:
      field: the path of the data in the config, for errors.
      ends: the path in the model of the field that is the number of ids, and this number, by key.
    """

    field: str
    ends: Mapping[str, tuple[str, int]]

    @classmethod
    def of(cls, field: str, model: Any, needs: Sequence[str]) -> Limits:
        """The limits by `vocab` and `head.classes` of a model or its parts, for tokens and for labels that are needed.

        Args:
          needs: the keys that the objective or evaluator needs. Other labels have no limit: an evaluation of features
            may have other classes than the model.
        """
        needed = [part_of(key) for need in needs for key in need.split(" | ")]
        ends = {}
        for task in {"", *(task for task, _ in needed)}:
            part = for_task(model, task)
            for key, counted in counted_by(part, {name for of, name in needed if of == task}).items():
                if (size := find_size(part, counted)) is not None:
                    ends[f"{task}/{key}" if task else key] = size
        return cls(field, ends)

    def check(self, batch: Mapping[str, np.ndarray]) -> None:
        """Checks some rows of a batch on the host. A target or label of weight 0 may be negative, since it is not used.

        Raises:
          UserError: an id is out of range; the message names the example.
        """
        for key, (counted, end) in self.ends.items():
            # As unsigned numbers, negative ids are large.
            if key not in batch or batch[key].view(np.uint32).max(initial=0) < end:
                continue
            task, name = part_of(key)
            ids = batch[key]
            prefix = task and f"{task}/"
            outside = (ids < 0) | (ids >= end)
            weights = batch.get(f"{prefix}weights")
            if name not in INPUTS and weights is not None and weights.shape == ids.shape:
                outside &= (weights != 0) | (ids >= end) | (ids < -end)
            if outside.any():
                index = tuple(np.argwhere(outside)[0])
                examples = batch[f"{prefix}id"]
                expected = f"{key} from 0 to {end - 1} (config.model.{counted} is {end})"
                raise UserError(self.field, expected, f"{ids[index]} in example {examples[index[: examples.ndim]]}")


def for_task(model: Any, task: str) -> Any:
    """The model as a task calls it: another head, or other sizes; the model itself if it has one task, or no name."""
    return model.for_task(task) if task and hasattr(model, "for_task") else model
