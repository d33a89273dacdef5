"""Where prepared data lives, and how it gets there: one builder at a time, published by one rename."""

import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import rich.console
import rich.progress

from txjax.types import UserError

logger = logging.getLogger(__name__)


def cache_dir() -> Path:
    """TXJAX_CACHE_DIR, or ~/.cache/txjax."""
    return Path(os.environ.get("TXJAX_CACHE_DIR") or "~/.cache/txjax").expanduser()


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds the file `path` against every other process and thread; a holder that dies lets go.

    Raises:
      UserError: its folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    except OSError as error:
        hint = f"{error.strerror}; set TXJAX_CACHE_DIR (or data_dir) to another folder"
        raise UserError("TXJAX_CACHE_DIR", "a folder that can be written", str(path.parent), hint=hint) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning("waiting for another process that holds %s", path)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr where that is a terminal; yields the function that advances it."""
    with rich.progress.Progress(
        *rich.progress.Progress.get_default_columns(),
        console=rich.console.Console(stderr=True),
        disable=not sys.stderr.isatty(),
    ) as bar:
        task = bar.add_task(description, total=total)
        yield lambda count: bar.advance(task, count)
