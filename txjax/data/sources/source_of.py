"""The source of a data set, by its fields."""

import dataclasses
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from txjax.data.sources.arrow_files import ArrowFiles, ParquetFiles
from txjax.data.sources.file_source import FileSource
from txjax.data.sources.folder_walks import folder_path, is_folder, walk_folder
from txjax.data.sources.json_arrays import JSONArrays
from txjax.data.sources.json_lines import JSONLines
from txjax.data.sources.media_folders import AudioFolder, ImageFolder
from txjax.data.sources.record_source import RecordSource
from txjax.data.sources.tables import Tables
from txjax.data.sources.text_blocks import TextFiles
from txjax.data.sources.tfds_source import TFDS
from txjax.data.sources.unpacked import UNPACKERS
from txjax.data.sources.web_dataset import WebDataset
from txjax.errors import UserError, near_misses
from txjax.types import config_field

BY_ENDING: dict[str, Any] = {
    ".json": JSONArrays,
    ".jsonl": JSONLines,
    ".ndjson": JSONLines,
    ".csv": Tables,
    ".tsv": lambda paths: Tables(paths, separator="\t"),
    ".parquet": ParquetFiles,
    ".arrow": ArrowFiles,
    ".tar": WebDataset,
    ".txt": TextFiles,
    ".md": TextFiles,
}


def source_field() -> Any:
    """The field `source` of a data set: a `RecordSource`, a path, or None."""
    return dataclasses.field(default=None, kw_only=True, metadata=config_field(None, text=True).metadata)


def source_of(settings: Any, source_of_path: Callable[[str], RecordSource] | None = None) -> RecordSource:
    """The source that the field `source` says, or, where that is None, `name` and `data_dir`.

    Args:
      source_of_path: the source that a path says. If None, `source_at`.

    Raises:
      UserError: a path says nothing about its files.
    """
    if settings.source is None:
        return TFDS(settings.name, settings.data_dir)
    return (source_of_path or source_at)(settings.source) if isinstance(settings.source, str) else settings.source


def source_at(path: str) -> FileSource:
    """The source of files by the ending of their path, or pattern of paths.

    Raises:
      UserError: no kind of files has this ending.
    """
    name = PurePath(path)
    if is_folder(path):
        names = walk_folder(folder_path(path)).files
        for of_folder in (ImageFolder, AudioFolder):
            if any(file.lower().endswith(of_folder.suffixes) for file in names):
                return of_folder(path)
    ending = name.with_suffix("").suffix if name.suffix in UNPACKERS else name.suffix
    if (kind := BY_ENDING.get(ending.lower())) is None:
        known = ", ".join(BY_ENDING)
        hint = "a folder needs a pattern, such as FOLDER/*.jsonl" if is_folder(path) else ""
        expected = f"a path or pattern that ends with one of {known}, or a source such as JSONLines({path!r})"
        raise UserError("data.source", expected, path, near_misses(ending, BY_ENDING), hint)
    return kind(path)  # type: ignore[no-any-return]
