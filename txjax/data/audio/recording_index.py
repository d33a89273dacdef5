"""The lengths and rates of a split's recordings, by file header or stored shape: no sample is decoded."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int32

from txjax.data.audio.audio_files import UnusableAudio, read_header
from txjax.data.loading import disk_cache
from txjax.data.sources.record_source import Records
from txjax.data.tfds import records as tfds_records
from txjax.data.tfds.records import ChangedData, CorruptData
from txjax.errors import UserError

LAYOUT = 1  # version of the files; caches of other versions are not used


@dataclasses.dataclass(frozen=True)
class RecordingIndex:
    """What is known of each recording before it is read.

    Attributes:
      samples: of each channel; 0 for a file that cannot be read.
      channels: their number.
      rates: samples a second; 0 where the record doesn't say.
      faults: why a file cannot be read, by the number of its record.
    """

    samples: Int32[np.ndarray, "N"]
    channels: Int32[np.ndarray, "N"]
    rates: Int32[np.ndarray, "N"]
    faults: dict[int, str]


def open_index(records: Records, split: str, name: str, feature: Any, rate_feature: str | None) -> RecordingIndex:
    """The index of a split's recordings, from the cache; builds it if it is missing or damaged.

    Args:
      records: of the split.
      name, feature: the audio feature: a file, or samples (T,) or (T, channels).
      rate_feature: the feature with the rate of a recording. If None, there is none.

    Raises:
      UserError: `rate_feature` is stated, and the records are of another source than TFDS.
    """
    if rate_feature is not None and not isinstance(records, tfds_records.Records):
        hint = "data.stored_rate is the rate of all recordings"
        raise UserError("data.rate_feature", f"None for {records.name}", rate_feature, hint=hint)
    made_from = {
        "layout": LAYOUT,
        "split": split,
        "feature": name,
        "rate_feature": rate_feature,
        "records": records.fingerprint,
    }

    def build(folder: Path) -> None:
        table = np.zeros((len(records), 3), np.int32)
        faults = {}
        with disk_cache.progress(f"lengths of {records.name} {split}", len(records)) as advance:
            for number in range(len(records)):
                try:
                    table[number] = _measure(records, number, name, feature, rate_feature)
                except ChangedData:
                    raise
                except (UnusableAudio, CorruptData) as error:
                    faults[number] = str(error)
                advance(1)
        np.save(folder / "index.npy", table)
        (folder / "faults.json").write_text(json.dumps(faults), encoding="utf-8")

    return disk_cache.get_or_build("recordings", made_from, build, _load)


def _load(folder: Path) -> RecordingIndex:
    faults = json.loads((folder / "faults.json").read_text(encoding="utf-8"))
    samples, channels, rates = np.load(folder / "index.npy").T
    return RecordingIndex(samples, channels, rates, {int(number): text for number, text in faults.items()})


def _measure(records: Records, number: int, name: str, feature: Any, rate_feature: str | None) -> tuple[int, int, int]:
    """The samples, channels and rate of a record. Raises UnusableAudio for a file that cannot be read."""
    from txjax.data.tfds.audio_feature import stored_size  # imports TFDS

    if not isinstance(records, tfds_records.Records):  # their recordings are files
        return dataclasses.astuple(read_header(records[number][name]))
    example = records.stored(number)
    entries = example.features.feature
    if getattr(feature, "lazy_decode", False):
        header = read_header(entries[name].bytes_list.value[0])
        return header.samples, header.channels, header.rate
    rate = 0 if rate_feature is None else int(entries[rate_feature].int64_list.value[0])
    return *stored_size(feature, name, example), rate
