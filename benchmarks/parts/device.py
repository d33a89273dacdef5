"""The accelerator as JAX sees it."""

import jax

from txjax import plugins
from txjax.chips import CHIPS, chip_of


def device() -> str:
    """The kind of the devices here, with their number where there are several, and JAX's version."""
    plugins.leave_out()
    count = jax.device_count()
    return f"{f'{count} x ' if count > 1 else ''}{jax.devices()[0].device_kind}, JAX {jax.__version__}"


def chip_name() -> str:
    """The chip's name in the table of chips; H100 if it is not in the table."""
    chip = chip_of(jax.devices()[0])
    return next((name for name, known in CHIPS.items() if known is chip), "H100")


def has_fp8() -> bool:
    """Whether products of matrices in float8 are faster here than in bfloat16: NVIDIA's GPUs from Ada on."""
    return float(getattr(jax.devices()[0], "compute_capability", 0)) >= 8.9
