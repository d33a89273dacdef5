"""Configs with fields set from Python, and tables as data."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.experiment import Experiment
from txjax.io.cache_dir import cache_dir
from txjax.overrides import Override


def load_config(source: str, fields: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a config, as `txjax train --config=SOURCE --config.FIELD=VALUE` reads it.

        txjax.load_config("txjax:text/classifier", {"data.source": table, "data.text": "review", "num_steps": 200})

    Args:
      source: `FILE.py`, `FILE.py:variant` or `txjax:text/gpt_tiny`.
      fields: values by the names of fields, such as "optimizer.peak_lr": numbers and texts, or components, also of
        one's own classes, such as `{"model": Decoder(vocab=256)}`. A pandas table is written once into the cache
        folder, as a Parquet file that is named by its content, so that the run finds it again.

    Raises:
      UserError: a file, a field or a value is invalid; the message has the near misses.
    """
    from txjax import config

    return config.load(source, [_override(name, value) for name, value in (fields or {}).items()])


def _override(name: str, value: Any) -> Override:
    """What sets a field: texts, and the paths of tables, are read as flags' are, other values are set as they are."""
    return typed_fields({name: value})[0] if isinstance(value, str | Path) or _is_table(value) else (name, value)


def typed_fields(fields: Mapping[str, Any]) -> list[str]:
    """The flags of a command that sets these fields."""
    return [f"--config.{name}={_typed(value)}" for name, value in fields.items()]


def _typed(value: Any) -> str:
    """A value as one would type it behind a flag."""
    if _is_table(value):
        return str(_keep_table(value))
    return str(value) if isinstance(value, str | Path) else repr(value)


def _is_table(value: Any) -> bool:
    return hasattr(value, "to_parquet")


def _keep_table(table: Any) -> Path:
    """The file of a pandas table in the cache folder."""
    content = table.to_parquet(index=False)
    path = cache_dir() / "tables" / f"{hashlib.blake2b(content, digest_size=16).hexdigest()}.parquet"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(content)
        unfinished.replace(path)
    return path
