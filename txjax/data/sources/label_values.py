"""The labels of the records of a split."""

from collections.abc import Iterable
from typing import Any

from txjax.data.sources.feature_values import read_values
from txjax.data.sources.record_source import RecordSplit
from txjax.data.tfds.computed_labels import ComputedLabel
from txjax.errors import UserError


def read_labels(split: RecordSplit, label: ComputedLabel, numbers: Iterable[int] | None = None) -> list[Any]:
    """The labels of records, from cached values.

    Args:
      numbers: of the records. If None, all.

    Raises:
      UserError: a value stands for no class; it names the record.
    """
    features = split.features()
    classes = label.check(features)
    compute = label.function(features)
    values = read_values(split, label.feature)
    source = split.open([label.feature])
    labels = []
    for number in range(len(values)) if numbers is None else numbers:
        try:
            labels.append(compute(values[number]))
        except UserError as error:
            raise error.with_hint(f"in {source.place(number)}") from None
        if not label.is_valid(labels[-1], classes):
            expected = f"labels from 0 to {classes - 1} in {split.label}, or -1 for none"
            raise UserError("data.label", expected, f"{labels[-1]} in {source.place(number)}")
    return labels
