"""The cache of prepared data: built by one process at a time, published by an atomic rename."""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from txjax.errors import UserError
from txjax.io import digest
from txjax.io.cache_dir import cache_dir
from txjax.io.disk import take_lock
from txjax.io.files import flush
from txjax.terminal_escape import visible

logger = logging.getLogger(__name__)

PATIENCE = 20.0  # seconds of waiting for another process, before a message says so
DIGEST_LIMIT = 4 << 30  # bytes; the digests of a larger folder are not verified, only what `load` reads
T = TypeVar("T")


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Locks the file `path` against all other processes and threads; released when its holder exits.

    Raises:
      UserError: its folder cannot be written, or its file system has no locks.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        hint = f"{error.strerror}; set TXJAX_CACHE_DIR (or data_dir) to another folder"
        raise UserError("TXJAX_CACHE_DIR", "a folder that can be written", str(path.parent), hint=hint) from error
    with file:
        if not take_lock(file.fileno(), "TXJAX_CACHE_DIR", path.parent):
            message = "waiting for another process that has locked %s"
            timer = threading.Timer(PATIENCE, logger.warning, (message, path))
            timer.start()
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
            finally:
                timer.cancel()
        yield


def get_or_build(kind: str, made_from: dict[str, Any], build: Callable[[Path], None], load: Callable[[Path], T]) -> T:
    """Opens the folder `kind/KEY` of the cache, KEY a hash of `made_from`; builds it if it is missing or damaged.

    It is built in another folder, flushed and renamed under a lock, so it is complete or missing; a second builder at
    the same time waits and reads. Every call verifies the digests of its files. Where the cache can't be written or
    locked, an undamaged folder is opened without a lock.

    Args:
      kind: the kind of content, such as `tokens`.
      made_from: all that the content depends on, as JSON values; saved with it as `made_from.json`.
      build: fills an empty folder.
      load: opens a folder. OSError, ValueError, KeyError and TypeError mean that it is damaged.

    Raises:
      UserError: it has to be built, and the cache can't be written or locked.
    """
    key_text = json.dumps(made_from, indent=1)
    key = hashlib.blake2b(key_text.encode(), digest_size=16).hexdigest()
    folder = cache_dir() / kind / key

    def load_verified() -> T:
        large = sum(file.stat().st_size for file in folder.iterdir()) > DIGEST_LIMIT
        if not large and (faults := digest.faults(folder)):
            raise ValueError("; ".join(faults))
        if (folder / "made_from.json").read_text(encoding="utf-8") != key_text:
            raise ValueError("made_from.json belongs to other content")
        return load(folder)

    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock(folder.parent / f".{key}.lock"))
        except UserError:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                return load_verified()  # a mount that no process can write: what is there stays as it is
            raise
        if folder.exists():
            try:
                return load_verified()
            except (OSError, ValueError, KeyError, TypeError) as error:
                logger.warning("the cache %s is damaged (%s): building it again", folder, error)
        aside = folder.with_name(f".{key}.building")
        shutil.rmtree(aside, ignore_errors=True)  # left by a killed process
        aside.mkdir()
        build(aside)
        (aside / "made_from.json").write_text(key_text, encoding="utf-8")
        digest.commit(aside)
        shutil.rmtree(folder, ignore_errors=True)  # a damaged one
        os.rename(aside, folder)
        flush(folder.parent)
        return load_verified()


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr if that is a terminal; yields the function that advances it."""
    if not sys.stderr.isatty():  # where a disabled bar of older versions of rich writes an empty line
        yield lambda count: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(*Progress.get_default_columns(), console=Console(stderr=True)) as bar:
        task = bar.add_task(escape(visible(description)), total=total)
        yield lambda count: bar.advance(task, count)
