"""Range checks of the ids in a batch: an id outside a model's table would give NaN, or silently another row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txjax.types import UserError

COUNTED_BY = {"tokens": "vocab", "targets": "vocab", "label": "classes", "other_label": "classes"}


@dataclasses.dataclass(frozen=True)
class Limits:
    """The upper bounds of ids, by key of the batch.

    Attributes:
      field: the path of the data in the config, for errors.
      ends: the largest id plus 1, by key.
    """

    field: str
    ends: Mapping[str, int]

    @classmethod
    def of(cls, field: str, model: Any, needs: Sequence[str]) -> Limits:
        """The limits by a model's `vocab` and `classes`, for tokens and for labels that are needed.

        Args:
          needs: the keys that the objective or evaluator needs. Other labels have no limit: an evaluation of features
            may have other classes than the model.
        """
        label = {"label", "other_label"} if "label" in needs else set()
        keys = {"tokens", "targets"} | label
        ends = {key: getattr(model, counted, None) for key, counted in COUNTED_BY.items() if key in keys}
        return cls(field, {key: end for key, end in ends.items() if isinstance(end, int)})

    def check(self, batch: Mapping[str, np.ndarray]) -> None:
        """Checks some rows of a batch on the host. A target or label of weight 0 may be negative, since it is not used.

        Raises:
          UserError: an id is out of range; the message names the example.
        """
        for key, end in self.ends.items():
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
                expected = f"{key} from 0 to {end - 1} (config.model.{COUNTED_BY[key]} is {end})"
                raise UserError(self.field, expected, f"{ids[index]} in example {batch['id'][index[0]]}")
