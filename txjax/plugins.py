"""JAX's plugins for accelerators that this machine does not have, which `txjax plan` compiles with: JAX must not start
them.

libtpu (extra `plan`), when started, queries the cloud's metadata server, and prints several lines about its failure at
every command. The CUDA plugin (extra `plan-gpu`) asks the driver for its version, and prints a traceback.
"""

import glob
import os
from typing import NoReturn

from jax.extend.backend import register_backend_factory

_TPU = ("JAX_PLATFORMS", "JAX_FORCE_TPU_INIT", "TPU_ACCELERATOR_TYPE", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES")
_GPU = ("/dev/nvidia*", "/dev/dxg")  # files of an NVIDIA GPU, in a container and in WSL 2 too


def leave_out() -> None:
    """Prevents JAX from starting the TPU and CUDA runtimes if nothing indicates such devices.

    If the user sets `JAX_PLATFORMS`, it leaves the TPU's alone. Call it before JAX has initialised its backends.
    """
    on_pci_bus = os.environ.get("TPU_SKIP_MDS_QUERY") != "1"  # JAX sets it where it sees no TPU on the PCI bus
    if not (on_pci_bus or any(name in os.environ for name in _TPU) or glob.glob("/dev/accel*")):
        register_backend_factory("tpu", _absent, priority=-1)
    if not any(map(glob.glob, _GPU)):
        os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")


def _absent() -> NoReturn:
    raise RuntimeError("there is no TPU on this machine")
