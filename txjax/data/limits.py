"""Range checks of the ids in a batch: an id outside a model's table would give NaN, or silently another row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txjax.types import UserError

_VOCAB, _CLASSES = "vocab", "head.classes"


def counted_by(model: Any, needs: Sequence[str]) -> dict[str, str]:
    """The field of the model that is the number of ids, by key of a batch; `targets` that are needed may be classes."""
    targets = _VOCAB if "targets" not in needs or size_of(model, _CLASSES) is None else _CLASSES
    return {"tokens": _VOCAB, "targets": targets, "label": _CLASSES, "other_label": _CLASSES}


def size_of(model: Any, field: str) -> int | None:
    """The number in a field of the model, such as `head.classes`; None if it has no such field."""
    for name in field.split("."):
        model = getattr(model, name, None)
    return model if isinstance(model, int) else None


@dataclasses.dataclass(frozen=True)
class Limits:
    """The upper bounds of ids, by key of the batch.

    Attributes:
      field: the path of the data in the config, for errors.
      ends: the field of the model that is the number of ids, and this number, by key.
    """

    field: str
    ends: Mapping[str, tuple[str, int]]

    @classmethod
    def of(cls, field: str, model: Any, needs: Sequence[str]) -> Limits:
        """The limits by a model's `vocab` and `head.classes`, for tokens and for labels that are needed.

        Args:
          needs: the keys that the objective or evaluator needs. Other labels have no limit: an evaluation of features
            may have other classes than the model.
        """
        label = {"label", "other_label"} if "label" in needs else set()
        keys = {"tokens", "targets"} | label
        ends = {key: (name, size_of(model, name)) for key, name in counted_by(model, needs).items() if key in keys}
        return cls(field, {key: (name, end) for key, (name, end) in ends.items() if end is not None})

    def check(self, batch: Mapping[str, np.ndarray]) -> None:
        """Checks some rows of a batch on the host. A target or label of weight 0 may be negative, since it is not used.

        Raises:
          UserError: an id is out of range; the message names the example.
        """
        for key, (name, end) in self.ends.items():
            # As unsigned numbers, negative ids are large.
            if key not in batch or batch[key].view(np.uint32).max(initial=0) < end:
                continue
            ids = batch[key]
            outside = (ids < 0) | (ids >= end)
            weights = batch.get("weights")
            if key != "tokens" and weights is not None and weights.shape == ids.shape:
                outside &= (weights != 0) | (ids >= end) | (ids < -end)
            if outside.any():
                index = tuple(np.argwhere(outside)[0])
                expected = f"{key} from 0 to {end - 1} (config.model.{name} is {end})"
                raise UserError(self.field, expected, f"{ids[index]} in example {batch['id'][index[0]]}")
