"""libtpu on a machine without a TPU, where the extra `plan` brings it: JAX is not to start it.

Started, it asks the cloud's metadata server where it is, and tells of its failure in several lines at every command.
"""

import glob
import os
from typing import NoReturn

from jax.extend.backend import register_backend_factory

_MARKS = ("JAX_PLATFORMS", "JAX_FORCE_TPU_INIT", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")


def leave_out() -> None:
    """Keeps JAX from starting a TPU's runtime where nothing speaks of a TPU. Other devices are looked for as ever.

    Where the user names the platforms (`JAX_PLATFORMS`), their word holds. Call it before JAX has looked for devices.
    """
    found = os.environ.get("TPU_SKIP_MDS_QUERY") != "1"  # JAX sets it where it sees no TPU on the PCI bus
    if not (found or any(name in os.environ for name in _MARKS) or glob.glob("/dev/accel*")):
        register_backend_factory("tpu", _absent, priority=-1)


def _absent() -> NoReturn:
    raise RuntimeError("there is no TPU on this machine")
