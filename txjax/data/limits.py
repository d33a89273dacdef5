"""What the ids in a batch may be: one that a model has no row for would become NaN, or silently another row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txjax.types import UserError

COUNTED_BY = {"tokens": "vocab", "targets": "vocab", "label": "classes", "other_label": "classes"}


@dataclasses.dataclass(frozen=True)
class Limits:
    """Where ids end, by key of the batch.

    Attributes:
      field: the data's place in the config, for errors.
      ends: one more than the largest id.
    """

    field: str
    ends: Mapping[str, int]

    @classmethod
    def of(cls, field: str, model: Any, needs: Sequence[str]) -> Limits:
        """What a model's `vocab` and `classes` say, of tokens and of the keys that it is asked for.

        Args:
          needs: those of the objective or evaluator. A key that isn't needed has no limit: who measures features may
            use other labels than the model's.
        """
        label = {"label", "other_label"} if "label" in needs else set()
        keys = {"tokens", "targets"} | label
        ends = {key: getattr(model, counted, None) for key, counted in COUNTED_BY.items() if key in keys}
        return cls(field, {key: end for key, end in ends.items() if isinstance(end, int)})

    def check(self, batch: Mapping[str, np.ndarray]) -> None:
        """Looks at some rows of a batch on the host. An answer of weight 0 may be negative: it counts nowhere.

        Raises:
          UserError: an id is outside; names the example.
        """
        for key, end in self.ends.items():
            # As unsigned numbers, those below 0 are large.
            if key not in batch or batch[key].view(np.uint32).max(initial=0) < end:
                continue
            ids = batch[key]
            outside = (ids < 0) | (ids >= end)
            weights = batch.get("weights")
            if key != "tokens" and weights is not None and weights.shape == ids.shape:
                outside &= (weights != 0) | (ids >= end) | (ids < -end)
            if outside.any():
                place = tuple(np.argwhere(outside)[0])
                expected = f"{key} from 0 to {end - 1} (config.model.{COUNTED_BY[key]} is {end})"
                raise UserError(self.field, expected, f"{ids[place]} in example {batch['id'][place[0]]}")
