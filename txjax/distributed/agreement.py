"""Barriers, and decisions that all processes share."""

import collections
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding, PartitionSpec

from txjax.distributed.identity import error_message, exit_code, is_multiprocess, is_primary, line_of, process_names
from txjax.errors import RunError

WAIT_SECONDS = 600.0  # timeout of a barrier

T = TypeVar("T")
_passed: collections.Counter[str] = collections.Counter()  # passes of each barrier: every pass needs a new key


class Elsewhere(RunError):
    """The error of another process, with its message and exit code."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


def barrier(what: str, seconds: float = WAIT_SECONDS) -> None:
    """Waits until all processes have called it. Threads may wait at barriers of other names at the same time.

    Raises:
      RunError: some process did not come in time; the message names those.
    """
    try:
        missing = absent(what, seconds)
    except RuntimeError as error:
        raise RunError(f"waiting for the others ({what}): {line_of(error)}") from error
    if missing:
        raise RunError(f"{process_names(missing)} did not reach {what!r} within {seconds:g} s")


def absent(what: str, seconds: float) -> list[int]:
    """Waits at a barrier; returns the processes that did not come in time.

    Raises:
      RuntimeError: the barrier can't be reached, or has failed.
    """
    if not is_multiprocess():
        return []
    from orbax.checkpoint import multihost  # slow to import; the only public barrier with a timeout

    _passed[what] += 1
    try:
        multihost.get_barrier_sync_fn()(key=f"txjax {what} {_passed[what]}", timeout_ms=int(1000 * seconds))
    except RuntimeError as error:
        task_names = re.search(r"timed out task names:\s*((?:\S*\d+\s+)+)", str(error))
        if not task_names:
            raise
        return sorted(int(re.findall(r"\d+", word)[-1]) for word in task_names[1].split())
    return []


def on_primary(what: str, decide: Callable[[], T], seconds: float = WAIT_SECONDS) -> T:
    """Runs `decide` on process 0 and returns its result (a JSON value), or raises its error, on all processes.

    Args:
      what: what is decided, for the message about a process that does not come.

    Raises:
      Elsewhere: on the other processes, if `decide` raised on process 0.
    """
    if not is_multiprocess():
        return decide()
    result: dict[str, Any] = {}
    error: Exception | None = None
    if is_primary():
        try:
            result = {"value": decide()}
        except Exception as caught:
            error = caught
            result = {"message": error_message(error), "code": exit_code(error)}
    barrier(what, seconds)
    result = json.loads(_broadcast(json.dumps(result).encode()))
    if error is not None:
        raise error
    if "message" in result:
        raise Elsewhere(result["message"], result["code"])
    return result["value"]


_BLOCK = 1024  # bytes; most values fit in one block


def _broadcast(content: bytes) -> bytes:
    """Returns the bytes of process 0 on all processes."""
    head = len(content).to_bytes(8, "little") + content[: _BLOCK - 8]
    got = _broadcast_block(head.ljust(_BLOCK, b"\0"))
    length = int.from_bytes(got[:8], "little")
    if length <= _BLOCK - 8:
        return got[8 : 8 + length]
    return _broadcast_block(content[:length].ljust(-(-length // _BLOCK) * _BLOCK, b"\0"))[:length]


def _broadcast_block(block: bytes) -> bytes:
    with jax.transfer_guard("allow"):
        return bytes(multihost_utils.broadcast_one_to_all(np.frombuffer(block, np.uint8)))


def gather(array: np.ndarray) -> np.ndarray:
    """The arrays of all processes, of one shape and dtype, stacked by process. All bits are kept."""
    if jax.process_count() == 1:
        return array[None]
    with jax.transfer_guard("allow"):
        local_rows = multihost_utils.process_allgather(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return np.asarray(local_rows).view(array.dtype).reshape(-1, *array.shape)


def local_rows(sharding: NamedSharding, batch_size: int) -> tuple[int, ...]:
    """The rows of a global batch on the devices of this process, in order.

    Processes whose devices differ only along other axes of the mesh (shards of the model) hold the same rows.
    """
    by_example = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:1]))
    indices = by_example.addressable_devices_indices_map((batch_size,)).values()
    return tuple(sorted({row for index in indices if index for row in range(*index[0].indices(batch_size))}))
