"""Reads and writes folders of Hugging Face's transformers, and calls models by its input names (`docs/interop.md`).

Neither torch nor transformers is imported, and no pickle is ever opened.
"""

from txjax.interop.huggingface.folder import forward, load, save

__all__ = ["forward", "load", "save"]
