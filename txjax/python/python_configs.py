"""Configs with fields set from Python, and tables as data."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txjax.experiment import Experiment
from txjax.io.cache_dir import cache_dir


def load_config(source: str, fields: Mapping[str, Any] | None = None) -> Experiment:
    """The experiment of a config, as `txjax train --config=SOURCE --config.FIELD=VALUE` reads it.

        txjax.load_config("txjax:text/classifier", {"data.source": table, "data.text": "review", "num_steps": 200})

    Args:
      source: `FILE.py`, `FILE.py:variant` or `txjax:text/gpt_tiny`.
      fields: values by the names of fields, such as "optimizer.peak_lr". A pandas table is written once into the cache
        folder, as a Parquet file that is named by its content, so that the run finds it again.

    Raises:
      UserError: a file, a field or a value is invalid; the message has the near misses.
    """
    from txjax import config

    return config.load(source, typed_fields(fields or {}))


def typed_fields(fields: Mapping[str, Any]) -> list[str]:
    """The flags of a command that sets these fields."""
    return [f"--config.{name}={_typed(value)}" for name, value in fields.items()]


def _typed(value: Any) -> str:
    """A value as one would type it behind a flag."""
    if hasattr(value, "to_parquet"):
        return str(_keep_table(value))
    return str(value) if isinstance(value, str | Path) else repr(value)


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
