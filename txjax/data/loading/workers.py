"""Batches read by other processes, where decoding needs more than the threads of one.

Grain deals the batches out to the processes and takes them back in their order, so they are the same as without.
"""

import functools
import os
import signal
import threading
import time
from collections.abc import Generator
from typing import Any

from txjax.errors import RunError

PARENT_SECONDS = 1.0  # between two looks whether the parent is alive
_LOST = "Worker process was terminated"  # how Grain's message begins


def read_in_processes(batches: Any, workers: int) -> Generator[Any]:
    """The elements of a Grain `IterDataset`, read by `workers` processes and in the same order.

    A worker ends with this process, however that ends, and ignores the signals that a terminal or a scheduler sends to
    all processes of a run.

    Raises:
      RunError: a worker was killed. What a worker raises is raised here.
    """
    import grain  # slow to import, and not needed by configs
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # Grain reads defaults of its own flags
    options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=2)
    iterator = iter(batches.mp_prefetch(options, worker_init_fn=functools.partial(_begin, os.getpid())))
    try:
        yield from iterator
    except RuntimeError as error:
        if str(error).startswith(_LOST):
            raise RunError("a worker of data_workers was killed, perhaps for its memory; take fewer") from error
        raise
    finally:
        end_reading(iterator)


def end_reading(iterator: Any) -> None:
    """Ends an iterator's threads and processes. Before Grain 0.2.15 they end when nothing refers to it any more."""
    if hasattr(iterator, "close"):
        iterator.close()


def _begin(parent: int, index: int, count: int) -> None:
    """Runs first in every worker."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)
