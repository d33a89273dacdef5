"""The source of a data set, by its fields."""

import dataclasses
from typing import Any

from txjax.data.sources.record_source import RecordSource
from txjax.data.sources.tfds_source import TFDS
from txjax.types import UserError, config_field


def source_field() -> Any:
    """The field `source` of a data set: a `RecordSource`, a path, or None."""
    return dataclasses.field(default=None, kw_only=True, metadata=config_field(None, text=True).metadata)


def source_of(settings: Any) -> RecordSource:
    """The source that the fields `source`, or else `name` and `data_dir` say.

    Raises:
      UserError: both are there, or a path says nothing about its files.
    """
    if settings.source is None:
        return TFDS(settings.name, settings.data_dir)
    if settings.name is not None:
        raise UserError("data.name", "None, where data.source says where the records are", settings.name)
    return settings.source
