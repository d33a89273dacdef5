"""A run whose workdir is in a bucket works in a folder of the cache; a copy of one is a folder like any other."""

import contextlib
import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from txjax import distributed
from txjax.distributed import on_primary
from txjax.errors import RunError, UserError, join_names
from txjax.io.cache_dir import cache_dir
from txjax.io.disk import take_lock
from txjax.io.new_folder import new_folder
from txjax.train.bucket import commits
from txjax.train.bucket.client import Bucket, check_url
from txjax.train.bucket.commits import name_of
from txjax.train.bucket.lease import End, Lease, place_of
from txjax.train.bucket.mirror import Mirror
from txjax.train.bucket.transfer import download, remove_others

END_SECONDS = 24 * 3600.0  # that the other processes wait for the last upload
TRIES = 5  # to copy a workdir whose run removes steps meanwhile
log = logging.getLogger("txjax")


@contextlib.contextmanager
def open_workdir(field: str, workdir: Path | str, end: End = distributed.exit_process) -> Iterator[Path]:
    """Yields the folder in which a run of this workdir works: the path itself, or for a bucket one of the cache.

    That is equal to the bucket's at the beginning, and again at the end.

    Args:
      field: what has the workdir, such as `--workdir`, for messages.
      workdir: a path, or `s3://BUCKET/FOLDER` or `gs://BUCKET/FOLDER`.
      end: called in a thread, with an exit code and a message, if the bucket can't be written any more.

    Raises:
      UserError: another run is in the bucket's workdir, or the bucket can't be read and written. RunError: the store
        can't be reached.
    """
    folder = folder_of(workdir)
    if not is_in_bucket(workdir):
        yield folder
        return
    url = str(workdir)
    check_url(field, url)
    with contextlib.ExitStack() as stack:
        mark = on_primary("the workdir", lambda: stack.enter_context(_mirrored(field, url, folder, end)))
        _check_shared(folder, mark)
        yield folder
        on_primary("the end of the workdir", stack.close, END_SECONDS)


def fetch_workdir(field: str, url: str, to: Path) -> int:
    """Copies a workdir from a bucket into a new folder, complete or not at all, whether or not its run still trains.

    Args:
      field: the flag that has the URL, for messages.

    Returns:
      The number of files.

    Raises:
      UserError: there is no run, or `to` is not new. RunError: files are damaged.
    """
    bucket = Bucket(field, url)
    with new_folder("--to", to) as folder:
        for _ in range(TRIES):
            number, entry = commits.newest(bucket)
            if entry is None or not entry.files:
                raise UserError(field, "a run in a bucket", url, hint="there is none, or it has not saved yet")
            damaged = download(bucket, entry.files, folder)
            if not damaged:
                remove_others(folder, entry.files)
                return len(entry.files)
            if commits.newest(bucket)[0] == number:
                raise RunError(f"damaged in {url}: {join_names(damaged)}")
        raise RunError(f"{url}: its run removes steps faster than they can be copied")


def check_new_workdir(field: str, url: str) -> None:
    """Raises UserError if a bucket has a run at a URL. `field`: the flag that has the URL, for messages."""
    if commits.newest(Bucket(field, url))[0]:
        raise UserError(field, "a folder without earlier runs", url)


def folder_of(workdir: Path | str) -> Path:
    """The folder in which a run of this workdir works: the path itself, or for a bucket one of the cache."""
    if not is_in_bucket(workdir):
        return Path(workdir)
    key = f"{os.environ.get('AWS_ENDPOINT_URL', '')} {str(workdir).rstrip('/')}"
    run = cache_dir().resolve() / "workdirs" / hashlib.blake2b(key.encode(), digest_size=8).hexdigest()
    return run / Path(workdir).name  # the run's name


def cached_copy(field: str, workdir: Path | str) -> Path:
    """A folder with the files of a workdir: the path itself, or for a bucket a copy of its newest entry in the cache.

    Raises:
      UserError: the bucket has no run there. RunError: files are damaged.
    """
    if not is_in_bucket(workdir):
        return Path(workdir)
    url = str(workdir)
    number, _ = commits.newest(Bucket(field, url))
    folder = folder_of(url)
    to = folder.parent / "copies" / name_of(number) / folder.name
    if not to.is_dir():
        fetch_workdir(field, url, to)
    return to


def is_in_bucket(workdir: Path | str) -> bool:
    """Whether a workdir is a URL."""
    return not isinstance(workdir, Path) and "://" in workdir


@contextlib.contextmanager
def _mirrored(field: str, url: str, folder: Path, end: End) -> Iterator[str]:
    """Mirrors a folder in a bucket until the block ends; yields a text that a file beside the folder has."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.parent / "lock"
    with path.open("a+", encoding="utf-8") as file:
        if not take_lock(file.fileno(), field, folder.parent):
            file.seek(0)
            hint = f"{file.read() or 'another process'} is in it; wait, or take another"
            raise UserError(field, "a folder that no other run is using", url, hint=hint)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        mark = secrets.token_hex(8)
        (folder.parent / "mark").write_text(mark, encoding="utf-8")
        lease = Lease(Bucket(field, url), place_of(file.fileno(), folder), end)
        mirror = Mirror(lease, folder, folder.parent / "snapshot", end)
        try:
            yield mark
        except BaseException:
            try:
                mirror.close()
            except (UserError, RunError) as error:
                log.warning("%s", error)
            raise
        mirror.close()


def _check_shared(folder: Path, mark: str) -> None:
    """Raises UserError on all processes unless all have this folder, by the text of a file beside it."""
    if not distributed.is_multiprocess():
        return
    path = folder.parent / "mark"
    is_there = path.is_file() and path.read_text(encoding="utf-8") == mark
    others = np.flatnonzero(~distributed.gather(np.array([is_there]))[:, 0])
    if len(others):
        expected = "a folder that all processes share: with a workdir in a bucket they write its steps there"
        raise UserError("TXJAX_CACHE_DIR", expected, f"{folder.parent.parent} of process {others[0]}")
