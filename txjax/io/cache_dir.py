"""The cache folder, for prepared data and compiled programs; all of it can be made again."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """Returns TXJAX_CACHE_DIR, or ~/.cache/txjax if it is not set."""
    return Path(os.environ.get("TXJAX_CACHE_DIR") or "~/.cache/txjax").expanduser()


def can_write(folder: Path) -> bool:
    """Whether this process can write a folder, or create it."""
    return os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)
