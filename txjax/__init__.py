"""txjax: Transformers of every family in JAX and Flax, with one trainer.

run = txjax.fit("txjax:text/gpt_tiny", "runs/first")
print(run.evaluate(), run.generate("def ", length=100))
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from txjax.python.python_configs import load_config as load_config
    from txjax.python.python_runs import Run as Run
    from txjax.python.python_runs import fit as fit
    from txjax.python.python_runs import open_run as open
    from txjax.python.python_sweeps import fit_law as fit_law
    from txjax.python.python_sweeps import fit_sweep as fit_sweep

__version__ = "0.2.0"
__all__ = ["Run", "fit", "fit_law", "fit_sweep", "load_config", "open"]

# Where each name is, so that `import txjax` imports nothing else.
_MODULES = {
    "Run": ("txjax.python.python_runs", "Run"),
    "fit": ("txjax.python.python_runs", "fit"),
    "fit_law": ("txjax.python.python_sweeps", "fit_law"),
    "fit_sweep": ("txjax.python.python_sweeps", "fit_sweep"),
    "load_config": ("txjax.python.python_configs", "load_config"),
    "open": ("txjax.python.python_runs", "open_run"),
}


def __getattr__(name: str) -> Any:
    if name == "sweep":  # the package, for its points
        return importlib.import_module("txjax.sweep")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _MODULES[name]
    return getattr(importlib.import_module(module), attribute)
