"""The environment variables that change what a run computes, or by which programs, as its manifest notes them."""

import os
import re

from txjax import tree

_NOTED = re.compile(
    r"(JAX|TXJAX|XLA|LIBTPU|NCCL|CUBLAS|CUDNN|TF_CUDNN|ONEDNN|DNNL|OMP)_\w+"
    r"|NVIDIA_TF32_OVERRIDE|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_MAX_CONNECTIONS"
)
_OF_ONE_START = {"TXJAX_PARENT", "JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_INDEX", "JAX_PROCESS_ID"}


def noted() -> dict[str, str]:
    """Those that are set now, by name, without secrets and without what is another at every start or process."""
    names = sorted(name for name in os.environ if _NOTED.fullmatch(name) and name not in _OF_ONE_START)
    return tree.to_json({name: " ".join(tree.hide_secrets(os.environ[name].split())) for name in names})
