"""The values of one feature of all records of a split, cached, since decoding a record takes long."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import RecordSplit

BATCH = 128  # records read at a time


def read_values(split: RecordSplit, feature: str) -> list[Any]:
    """The values of a feature that is a text, a class, a number or a sequence of these but texts, by record."""
    source = split.open([feature])
    made_from = {"split": split.split, "feature": feature, "records": source.fingerprint}

    def build(folder: Path) -> None:
        values: list[Any] = []
        with disk_cache.progress(f"{feature} of {source.name} {split.split}", len(source)) as advance:
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
