"""Multi-process runs: initialization, barriers, agreement on decisions, and joint failure.

In a run of one process everything here does nothing and costs nothing. See `docs/processes.md`.
"""

from txjax.distributed.agreement import Elsewhere, barrier, gather, local_rows, on_primary
from txjax.distributed.failing import exit_process, first_failure, lost_peers, report_failure, watch_peers
from txjax.distributed.identity import (
    error_message,
    exit_code,
    is_multiprocess,
    is_primary,
    process_index,
    process_name,
)
from txjax.distributed.joining import start
from txjax.distributed.joint_work import joint_work

__all__ = [
    "Elsewhere",
    "on_primary",
    "barrier",
    "exit_code",
    "report_failure",
    "first_failure",
    "is_primary",
    "gather",
    "process_index",
    "exit_process",
    "process_name",
    "local_rows",
    "lost_peers",
    "error_message",
    "is_multiprocess",
    "joint_work",
    "start",
    "watch_peers",
]
