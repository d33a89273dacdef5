"""Where txjax keeps what it can make again: prepared data, compiled programs."""

import os
from pathlib import Path


def cache_dir() -> Path:
    """TXJAX_CACHE_DIR, or ~/.cache/txjax."""
    return Path(os.environ.get("TXJAX_CACHE_DIR") or "~/.cache/txjax").expanduser()
