"""The values of one feature of all records of a split, cached, since decoding a record takes long."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data.loading import disk_cache
from txjax.data.tfds import records

BATCH = 128  # records read at a time
Where = tuple[str | None, str, str | None]  # the name, the split and the folder of a set


def read_values(where: Where, feature: str) -> list[Any]:
    """The values of a feature that is a text, a class, a number or a sequence of these but texts, by record.

    Args:
      where: the set's name, its split and its folder.
    """
    source = records.Records(*where, [feature])
    made_from = {"data": source.name, "split": where[1], "feature": feature, "records": source.fingerprint}

    def build(folder: Path) -> None:
        values: list[Any] = []
        with disk_cache.progress(f"{feature} of {source.name} {where[1]}", len(source)) as advance:
            for start in range(0, len(source), BATCH):
                read = [record[feature] for record in source.read(start, min(start + BATCH, len(source)))]
                values += map(_plain, read)
                advance(len(read))
        (folder / "values.json").write_text(json.dumps(values), encoding="utf-8")

    return disk_cache.get_or_build(
        "values", made_from, build, lambda folder: json.loads((folder / "values.json").read_text(encoding="utf-8"))
    )


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else np.asarray(value).tolist()


def value_names(values: list[Any], feature: Any) -> list[str]:
    """The values as texts; classes by their names."""
    if type(feature).__name__ == "ClassLabel":
        return [feature.names[value] if value >= 0 else "" for value in values]
    return [str(value) for value in values]
