"""Sequences of texts in a data set's records: by themselves, or as a part of sequences of features."""

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class TextSequence:
    """Several texts of each record.

    Attributes:
      feature: the name of the set's feature that they are in.
      part: the name of the texts in the elements of that feature. If None, the elements are the texts.
      element: the feature of one text, of TFDS.
    """

    feature: str
    part: str | None
    element: Any

    def texts(self, record: dict[str, Any]) -> list[Any]:
        """The texts of a record, as they are stored."""
        value = record[self.feature]
        return list(value if self.part is None else value[self.part])


def text_sequences(features: Any) -> dict[str, TextSequence]:
    """The sequences of texts among a set's features, by name: that of the feature, or FEATURE/PART."""
    sequences = {}
    for name, feature in features.items():
        if type(feature).__name__ == "Sequence":
            inner = feature.feature
            parts = dict(inner.items()) if type(inner).__name__ == "FeaturesDict" else {None: inner}
            for part, element in parts.items():
                if type(element).__name__ == "Text":
                    sequences[name if part is None else f"{name}/{part}"] = TextSequence(name, part, element)
    return sequences
