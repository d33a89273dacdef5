"""Work of all processes that is no run's training: what fails in one of them ends all."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from txjax.distributed.agreement import on_primary
from txjax.distributed.failing import lost_peers, watch_peers
from txjax.distributed.identity import is_multiprocess, is_primary


@contextlib.contextmanager
def joint_work(logs: Path, doing: str) -> Iterator[None]:
    """The processes watch each other until the block ends, and report failures in a folder that no other work reads.

    Where no folder can be made, a process whose peer has failed ends when an operation of both fails, or by missed
    heartbeats.

    Args:
      logs: the folder of the new one, which is removed once the work is done.
      doing: what the processes do, such as `evaluating runs/a`.

    Raises:
      RunError: in place of an error that follows from the death of other processes, see `lost_peers`.
    """
    folder = on_primary("the folder of the reports", lambda: _new_folder(logs)) if is_multiprocess() else None
    if folder is not None:
        watch_peers(Path(folder))
    try:
        yield
    except Exception as error:
        lost = lost_peers(error, doing)
        if lost is None:
            raise
        raise lost from error
    if folder is not None and is_primary():
        shutil.rmtree(folder, ignore_errors=True)


def _new_folder(logs: Path) -> str | None:
    """The path of a new folder; None in a file system that can't be written."""
    with contextlib.suppress(OSError):
        logs.mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(prefix="evaluate_", dir=logs)
    return None
