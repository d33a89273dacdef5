"""libtpu on a machine without a TPU, where the extra `plan` installs it: JAX must not start it.

When started, it queries the cloud's metadata server, and prints several lines about its failure at every command.
"""

import glob
import os
from typing import NoReturn

from jax.extend.backend import register_backend_factory

_MARKS = ("JAX_PLATFORMS", "JAX_FORCE_TPU_INIT", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")


def leave_out() -> None:
    """Prevents JAX from starting the TPU runtime if nothing indicates a TPU. Other backends are unaffected.

    If the user sets `JAX_PLATFORMS`, it does nothing. Call it before JAX has initialised its backends.
    """
    on_pci_bus = os.environ.get("TPU_SKIP_MDS_QUERY") != "1"  # JAX sets it where it sees no TPU on the PCI bus
    if not (on_pci_bus or any(name in os.environ for name in _MARKS) or glob.glob("/dev/accel*")):
        register_backend_factory("tpu", _absent, priority=-1)


def _absent() -> NoReturn:
    raise RuntimeError("there is no TPU on this machine")
