"""Where a record is, for messages."""

import contextlib

from txjax.data.sources.file_source import FileRecords
from txjax.data.sources.record_source import Records
from txjax.data.tfds.records import CorruptData


def describe_place(records: Records, number: int, names: Records | None = None, feature: str = "file") -> str:
    """The set, the file and the number of a record in it, and the file that it was made of; or that file alone.

    Args:
      names: the same records with the feature that is the name of that file, if the set has one.
      feature: this feature.
    """
    place = records.place(number)
    if isinstance(records, FileRecords):
        return place  # the file itself
    place = f"{records.name}: {place}"
    with contextlib.suppress(CorruptData):
        return place if names is None else f"{place} ({names[number][feature].decode(errors='replace')})"
    return place
