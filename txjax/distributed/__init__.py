"""Several processes that train as one: how they find each other, wait for each other, agree, and fail together.

Everything here does nothing, and costs nothing, where there is only one. `docs/processes.md` tells how it works.
"""

from txjax.distributed.agreement import Elsewhere, agree, barrier, gather, rows
from txjax.distributed.failing import fail, failed, leave, watch
from txjax.distributed.identity import exit_code, first, index, name, said, several
from txjax.distributed.joining import start

__all__ = [
    "Elsewhere",
    "agree",
    "barrier",
    "exit_code",
    "fail",
    "failed",
    "first",
    "gather",
    "index",
    "leave",
    "name",
    "rows",
    "said",
    "several",
    "start",
    "watch",
]
